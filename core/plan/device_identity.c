#include "plan/device_identity.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- versions ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Numbers joined by points, from the start of the text; returns what is behind them. */
static const char *parts_read(const char *text, struct device_version *out)
{
    *out = (struct device_version){0};
    while (is_digit(*text) && out->parts < 4) {
        uint64_t number = 0;
        for (; is_digit(*text); text++)
            if (number < UINT32_MAX) number = 10 * number + (uint64_t)(*text - '0');
        out->part[out->parts++] = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
        if (text[0] != '.' || !is_digit(text[1])) break;
        text++;
    }
    return text;
}

struct device_version version_read(const char *text)
{
    struct device_version found = {0};
    for (const char *at = text; *at; at++) {
        if (!is_digit(*at) || (at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '.'))) continue;
        parts_read(at, &found);
        if (found.parts > 1) return found;
    }
    return (struct device_version){0};
}

struct device_version version_unpack(uint32_t packed, uint32_t vendor_id, uint32_t driver_id)
{
    if (!packed) return (struct device_version){0};
    if (driver_id == DRIVER_NVIDIA_PROPRIETARY || (!driver_id && vendor_id == VENDOR_NVIDIA))
        return (struct device_version){{packed >> 22, packed >> 14 & 0xFF, packed >> 6 & 0xFF, packed & 0x3F}, 4};
    if (driver_id == DRIVER_INTEL_WINDOWS) return (struct device_version){{packed >> 14, packed & 0x3FFF}, 2};
    if (driver_id == DRIVER_MOLTENVK) /* 10204: 1.2.4 */
        return (struct device_version){{packed / 10000, packed / 100 % 100, packed % 100}, 3};
    return (struct device_version){{packed >> 22, packed >> 12 & 0x3FF, packed & 0xFFF}, 3};
}

/* By the numbers that `bound` gives. */
static int compare(const struct device_version *version, const struct device_version *bound)
{
    for (int i = 0; i < bound->parts; i++) {
        uint32_t have = i < version->parts ? version->part[i] : 0;
        if (have != bound->part[i]) return have < bound->part[i] ? -1 : 1;
    }
    return 0;
}

bool version_within(const struct device_version *version, const char *range)
{
    struct device_version low, high;
    if (!range || !*range) return true;
    if (!version->parts) return false;
    const char *rest = parts_read(range, &low);
    if (strncmp(rest, "..", 2) != 0) return compare(version, &low) == 0;
    if (compare(version, &low) < 0) return false;
    rest += 2;
    bool open = *rest == '<';
    parts_read(rest + open, &high);
    int order = compare(version, &high);
    return !high.parts || order < 0 || (order == 0 && !open);
}

/* ---- compilers ---- */

/* "E031.38", "EV031.38", "E17.1" or "DX.17.02": letters, perhaps digits, and numbers behind a point. */
static bool compiler_at(const char *at, struct device_identity *identity)
{
    const char *end = at;
    if (!strncmp(at, "DX.", 3)) {
        end = at + 2;
    } else if (at[0] == 'E') {
        end = at + 1 + (at[1] == 'V');
        if (!is_digit(*end)) return false;
        while (is_digit(*end)) end++;
    }
    size_t length = (size_t)(end - at);
    if (!length || *end != '.' || !is_digit(end[1]) || length >= sizeof identity->compiler) return false;
    snprintf(identity->compiler, sizeof identity->compiler, "%.*s", (int)length, at);
    parts_read(end + 1, &identity->release);
    /* The V is Vulkan's; the compilers' numbers are the same. */
    if (identity->compiler[1] == 'V') memmove(identity->compiler + 1, identity->compiler + 2, length - 1);
    return true;
}

void compiler_read(const char *text, struct device_identity *identity)
{
    identity->compiler[0] = 0;
    identity->release = (struct device_version){0};
    for (const char *at = text; *at; at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && compiler_at(at, identity)) return;
}

/* ---- both ---- */

void identity_versions(struct device_identity *identity, const char *driver_text, uint32_t packed)
{
    const bool qualcomm = identity->driver_id == DRIVER_QUALCOMM || identity->vendor_id == VENDOR_QUALCOMM;
    identity->driver = (struct device_version){0};
    compiler_read(qualcomm ? driver_text : "", identity);
    /* Qualcomm's text has versions of much else in it: Vulkan's number is the driver's. */
    if (!qualcomm || !packed || identity->driver_id == DRIVER_TURNIP) identity->driver = version_read(driver_text);
    if (!identity->driver.parts) identity->driver = version_unpack(packed, identity->vendor_id, identity->driver_id);
}
