"""loops.py INSTRUCTION COUNT: reads objdump's disassembly from standard input. Of the innermost loops (no branch inside) with
COUNT of the INSTRUCTION, at least one must be there, and none may have vectors on the stack (an address from there costs
nothing beside so many multiplications). For AArch64."""

import re
import sys

instruction, count = sys.argv[1], int(sys.argv[2])
code = []
for line in sys.stdin:
    match = re.match(r"\s+([0-9a-f]+):\s+(\S+)\s*(.*)", line)
    if match:
        code.append((int(match[1], 16), match[2], match[3]))
index = {address: n for n, (address, _, _) in enumerate(code)}
branch = re.compile(r"b(\.\w+|l|r|lr)?$|cbn?z$|tbn?z$|ret$")
found, spilled = 0, []
for n, (address, name, operands) in enumerate(code):
    target = re.search(r"([0-9a-f]+) <", operands) if branch.match(name) else None
    begin = int(target[1], 16) if target else address
    if begin >= address or begin not in index:
        continue
    body = code[index[begin] : n]
    if any(branch.match(other) for _, other, _ in body) or sum(other == instruction for _, other, _ in body) != count:
        continue
    found += 1
    if any("[sp" in where and re.match(r"[qdsv]\d", where) for _, _, where in body):
        spilled.append(f"{begin:x}")
print(f"{found} loops with {count} of {instruction}, {len(spilled)} of them with vectors on the stack: {' '.join(spilled)}")
sys.exit(not found or bool(spilled))
