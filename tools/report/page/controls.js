/* Native form controls in the page's dress; each changes one name of `state`. */

let control_count = 0;

/* One of a few: [[value, text]...]. */
function segments(name, legend, choices) {
    const group = "choice" + control_count++;
    return html("fieldset", { class: "segments", "data-control": name }, html("legend", null, legend),
        choices.map(([value, text]) => html("label", null, html("input", {
            type: "radio",
            name: group,
            value,
            checked: state[name] === value,
            change: () => change({ [name]: value })
        }),
                        html("span", null, text))));
}

/* One of many. Values may be numbers. */
function dropdown(name, legend, choices) {
    const node =
        html("select", { "data-control": name, change: () => change({ [name]: choices[node.selectedIndex][0] }) },
            choices.map(([value, text]) => html("option", { value, selected: state[name] === value }, text)));
    return html("label", { class: "field" }, html("span", null, legend), node);
}

function chip(checked, content, change_to, attributes) {
    return html("label", { class: "chip" },
        html("input", { type: "checkbox", checked, change: (event) => change_to(event.target.checked), ...attributes }),
        html("span", null, content));
}

/* Any of a set in `state`: [[value, content]...]; `inverse`: the set holds what is off. */
function chips(name, legend, choices, inverse) {
    return html("fieldset", { "data-control": name },
        html("legend", { class: name === "classes" ? "unseen" : null }, legend),
        choices.map(([value, content]) => chip(state[name].has(value) !== Boolean(inverse), content, (on) => {
            const next = new Set(state[name]);
            if (on !== Boolean(inverse))
                next.add(value);
            else
                next.delete(value);
            change({ [name]: next });
        }, { "data-value": value })));
}

function toggle(name, text) {
    return html("span", { "data-control": name }, chip(state[name], text, (on) => change({ [name]: on })));
}

function slider(name, legend, describe) {
    const shown = html("output", null, describe(state[name]));
    const node = html("input", {
        type: "range",
        min: 1,
        max: 100,
        step: 1,
        value: state[name],
        "data-control": name,
        input: () => {
            change({ [name]: Number(node.value) });
            shown.textContent = describe(state[name]);
        }
    });
    return html("label", { class: "field" }, html("span", null, legend), node, shown);
}

function make_theme(host) {
    const show = () => {
        if (state.theme === "auto")
            delete document.documentElement.dataset.theme;
        else
            document.documentElement.dataset.theme = state.theme;
    };
    const node = segments("theme", "Theme", [["auto", "auto"], ["light", "light"], ["dark", "dark"]]);
    node.addEventListener("change", show);
    find("legend", node).className = "unseen";
    host.append(node);
}
