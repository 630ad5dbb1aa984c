#include "plan/device_class.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "plan/device.h"

/* clang-format off */
static const struct {
    const char *name, *text;
} classes[CLASS_COUNT] = {
    [CLASS_GENERIC]          = {"generic", "any device"},
    [CLASS_CPU]              = {"cpu", "CPUs"},
    [CLASS_AMD_GCN]          = {"amd-gcn", "GCN"},
    [CLASS_AMD_CDNA]         = {"amd-cdna", "CDNA"},
    [CLASS_AMD_RDNA]         = {"amd-rdna", "RDNA"},
    [CLASS_AMD_RDNA3]        = {"amd-rdna3", "RDNA3"},
    [CLASS_AMD_RDNA4]        = {"amd-rdna4", "RDNA4"},
    [CLASS_INTEL_XE_LP]      = {"intel-xe-lp", "Xe-LP"},
    [CLASS_INTEL_XE_HPG]     = {"intel-xe-hpg", "Xe-HPG"},
    [CLASS_INTEL_XE2]        = {"intel-xe2", "Xe2"},
    [CLASS_APPLE]            = {"apple", "Apple's GPUs"},
    [CLASS_ADRENO]           = {"adreno", "Adreno"},
    [CLASS_MALI]             = {"mali", "Mali"},
    [CLASS_NVIDIA]           = {"nvidia", "NVIDIA's GPUs"},
    [CLASS_NVIDIA_PASCAL]    = {"nvidia-pascal", "Pascal"},
    [CLASS_NVIDIA_TURING]    = {"nvidia-turing", "Turing"},
    [CLASS_NVIDIA_AMPERE]    = {"nvidia-ampere", "Ampere"},
    [CLASS_NVIDIA_ADA]       = {"nvidia-ada", "Ada"},
    [CLASS_NVIDIA_HOPPER]    = {"nvidia-hopper", "Hopper"},
    [CLASS_NVIDIA_BLACKWELL] = {"nvidia-blackwell", "Blackwell"},
};
/* clang-format on */

const char *device_class_name(enum device_class class) { return classes[class].name; }

const char *device_class_text(enum device_class class) { return classes[class].text; }

enum device_class device_class_find(const char *name)
{
    int found = 0;
    while (found < CLASS_COUNT && strcmp(classes[found].name, name) != 0) found++;
    return (enum device_class)found;
}

/* ---- names ---- */

/* A part of a device's name: '#' stands for a digit. It begins a word, whatever the case, and ends where no letter or
 * digit follows, or anywhere where it ends in '*'. */
struct known_name {
    const char *part;
    enum device_class class;
};

static bool name_at(const char *name, const char *part)
{
    for (; *part && *part != '*'; name++, part++)
        if (*part == '#' ? !isdigit((unsigned char)*name)
                         : tolower((unsigned char)*name) != tolower((unsigned char)*part))
            return false;
    return *part == '*' || !isalnum((unsigned char)*name);
}

static bool name_has(const char *name, const char *part)
{
    for (const char *at = name; *at; at++)
        if ((at == name || !isalnum((unsigned char)at[-1])) && name_at(at, part)) return true;
    return false;
}

/* The first that fits. */
static enum device_class by_name(const struct known_name *known, const char *name)
{
    for (; known->part; known++)
        if (name_has(name, known->part)) return known->class;
    return CLASS_GENERIC;
}

/* ---- AMD ---- */

/* Of ROCm ("gfx90a:sramecc+:xnack-"), of Mesa's drivers, which name the chip behind the product, and products. */
static const struct known_name amd_names[] = {
    {"gfx908", CLASS_AMD_CDNA},    {"gfx90a", CLASS_AMD_CDNA},    {"gfx94#", CLASS_AMD_CDNA},
    {"gfx95#", CLASS_AMD_CDNA},    {"gfx6##", CLASS_AMD_GCN},     {"gfx7##", CLASS_AMD_GCN},
    {"gfx8##", CLASS_AMD_GCN},     {"gfx90*", CLASS_AMD_GCN},     {"gfx10*", CLASS_AMD_RDNA},
    {"gfx11*", CLASS_AMD_RDNA3},   {"gfx12*", CLASS_AMD_RDNA4},   {"MI100", CLASS_AMD_CDNA},
    {"MI2##*", CLASS_AMD_CDNA},    {"MI3##*", CLASS_AMD_CDNA},    {"arcturus", CLASS_AMD_CDNA},
    {"aldebaran", CLASS_AMD_CDNA}, {"navi1#", CLASS_AMD_RDNA},    {"navi2#", CLASS_AMD_RDNA},
    {"vangogh", CLASS_AMD_RDNA},   {"rembrandt", CLASS_AMD_RDNA}, {"raphael*", CLASS_AMD_RDNA},
    {"navi3#", CLASS_AMD_RDNA3},   {"phoenix*", CLASS_AMD_RDNA3}, {"strix*", CLASS_AMD_RDNA3},
    {"navi4#", CLASS_AMD_RDNA4},   {"polaris*", CLASS_AMD_GCN},   {"vega*", CLASS_AMD_GCN},
    {"raven*", CLASS_AMD_GCN},     {"renoir", CLASS_AMD_GCN},     {"stoney", CLASS_AMD_GCN},
    {"MI#", CLASS_AMD_GCN},        {"MI##", CLASS_AMD_GCN},       {"VII", CLASS_AMD_GCN},
    {"RX 9###", CLASS_AMD_RDNA4},  {"RX 7###*", CLASS_AMD_RDNA3}, {"RX 6###*", CLASS_AMD_RDNA},
    {"RX 5###*", CLASS_AMD_RDNA},  {"RX 5##", CLASS_AMD_GCN},     {"RX 4##", CLASS_AMD_GCN},
    {"W7###", CLASS_AMD_RDNA3},    {"W6###*", CLASS_AMD_RDNA},    {"W5###*", CLASS_AMD_RDNA},
    {"74#M", CLASS_AMD_RDNA3},     {"76#M", CLASS_AMD_RDNA3},     {"78#M", CLASS_AMD_RDNA3},
    {"8##M", CLASS_AMD_RDNA3},     {"8###S", CLASS_AMD_RDNA3},    {"610M", CLASS_AMD_RDNA},
    {"66#M", CLASS_AMD_RDNA},      {"68#M", CLASS_AMD_RDNA},      {NULL, CLASS_GENERIC}};

/* Sub-groups of 32 came with RDNA. */
static enum device_class amd_class(const struct device_limits *limits)
{
    enum device_class class = by_name(amd_names, limits->identity->name);
    if (class == CLASS_GENERIC && limits->subgroup_min == 32) class = CLASS_AMD_RDNA;
    if (class == CLASS_GENERIC && limits->subgroup_min == 64) class = CLASS_AMD_GCN;
    return class;
}

/* ---- Intel ---- */

static const struct known_name intel_names[] = {{"Arc(TM) B###*", CLASS_INTEL_XE2},
                                                {"Arc(TM) Pro B##*", CLASS_INTEL_XE2},
                                                {"Arc(TM) 13#*", CLASS_INTEL_XE2},
                                                {"Arc(TM) 14#*", CLASS_INTEL_XE2},
                                                {"BMG*", CLASS_INTEL_XE2},
                                                {"LNL*", CLASS_INTEL_XE2},
                                                {"PTL*", CLASS_INTEL_XE2},
                                                {"Lunar Lake", CLASS_INTEL_XE2},
                                                {"Battlemage", CLASS_INTEL_XE2},
                                                {"Panther Lake", CLASS_INTEL_XE2},
                                                {"Arc(TM)*", CLASS_INTEL_XE_HPG},
                                                {"DG2*", CLASS_INTEL_XE_HPG},
                                                {"MTL*", CLASS_INTEL_XE_HPG},
                                                {"ARL*", CLASS_INTEL_XE_HPG},
                                                {"Meteor Lake*", CLASS_INTEL_XE_HPG},
                                                {"Arrow Lake*", CLASS_INTEL_XE_HPG},
                                                {"Flex", CLASS_INTEL_XE_HPG},
                                                {"Iris(R) Xe*", CLASS_INTEL_XE_LP},
                                                {"Tiger Lake*", CLASS_INTEL_XE_LP},
                                                {"TGL*", CLASS_INTEL_XE_LP},
                                                {"RKL*", CLASS_INTEL_XE_LP},
                                                {"ADL*", CLASS_INTEL_XE_LP},
                                                {"RPL*", CLASS_INTEL_XE_LP},
                                                {"DG1", CLASS_INTEL_XE_LP},
                                                {"Graphics 7##", CLASS_INTEL_XE_LP},
                                                {NULL, CLASS_GENERIC}};

/* The number of a device's PCI id, which new ones have in place of a name: "Intel(R) Graphics [0xe20b]". */
static uint32_t pci_id(const struct device_identity *identity)
{
    const char *text = strstr(identity->name, "[0x");
    return identity->device_id ? identity->device_id : text ? (uint32_t)strtoul(text + 3, NULL, 16) : 0;
}

/* By the families' ranges of PCI ids (Linux: include/drm/intel/pciids.h). */
static enum device_class intel_class(const struct device_limits *limits)
{
    static const struct {
        uint32_t family; /* all but the last eight bits */
        enum device_class class;
    } families[] = {{0x9A, CLASS_INTEL_XE_LP},  {0x4C, CLASS_INTEL_XE_LP},  {0x46, CLASS_INTEL_XE_LP},
                    {0xA7, CLASS_INTEL_XE_LP},  {0x49, CLASS_INTEL_XE_LP},  {0x4F, CLASS_INTEL_XE_HPG},
                    {0x56, CLASS_INTEL_XE_HPG}, {0x7D, CLASS_INTEL_XE_HPG}, {0xB6, CLASS_INTEL_XE_HPG},
                    {0x64, CLASS_INTEL_XE2},    {0xE2, CLASS_INTEL_XE2},    {0xB0, CLASS_INTEL_XE2}};
    uint32_t id = pci_id(limits->identity);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (id >> 8 == families[i].family) return families[i].class;
    return by_name(intel_names, limits->identity->name);
}

/* ---- NVIDIA ---- */

static const struct known_name nvidia_names[] = {
    {"GB###*", CLASS_NVIDIA_BLACKWELL},  {"GH###*", CLASS_NVIDIA_HOPPER},    {"AD###*", CLASS_NVIDIA_ADA},
    {"GA###*", CLASS_NVIDIA_AMPERE},     {"TU###*", CLASS_NVIDIA_TURING},    {"GV###*", CLASS_NVIDIA_TURING},
    {"GP###*", CLASS_NVIDIA_PASCAL},     {"GM###*", CLASS_NVIDIA_PASCAL},    {"B100", CLASS_NVIDIA_BLACKWELL},
    {"B200", CLASS_NVIDIA_BLACKWELL},    {"B300", CLASS_NVIDIA_BLACKWELL},   {"RTX 50##*", CLASS_NVIDIA_BLACKWELL},
    {"H100", CLASS_NVIDIA_HOPPER},       {"H200", CLASS_NVIDIA_HOPPER},      {"H800", CLASS_NVIDIA_HOPPER},
    {"RTX 40##*", CLASS_NVIDIA_ADA},     {"L4", CLASS_NVIDIA_ADA},           {"L40*", CLASS_NVIDIA_ADA},
    {"RTX 30##*", CLASS_NVIDIA_AMPERE},  {"A100*", CLASS_NVIDIA_AMPERE},     {"A10*", CLASS_NVIDIA_AMPERE},
    {"A30", CLASS_NVIDIA_AMPERE},        {"A40", CLASS_NVIDIA_AMPERE},       {"RTX A####", CLASS_NVIDIA_AMPERE},
    {"RTX 20##*", CLASS_NVIDIA_TURING},  {"GTX 16##*", CLASS_NVIDIA_TURING}, {"T4", CLASS_NVIDIA_TURING},
    {"Quadro RTX", CLASS_NVIDIA_TURING}, {"V100*", CLASS_NVIDIA_TURING},     {"GTX 10##*", CLASS_NVIDIA_PASCAL},
    {"P100*", CLASS_NVIDIA_PASCAL},      {"GTX 9##*", CLASS_NVIDIA_PASCAL},  {NULL, CLASS_GENERIC}};

static enum device_class nvidia_class(const struct device_limits *limits)
{
    static const struct {
        uint32_t least; /* compute capability * 10 */
        enum device_class class;
    } generations[] = {{100, CLASS_NVIDIA_BLACKWELL}, {90, CLASS_NVIDIA_HOPPER}, {89, CLASS_NVIDIA_ADA},
                       {80, CLASS_NVIDIA_AMPERE},     {70, CLASS_NVIDIA_TURING}, {1, CLASS_NVIDIA_PASCAL}};
    for (size_t i = 0; i < sizeof generations / sizeof *generations; i++)
        if (limits->nvidia_sm >= generations[i].least) return generations[i].class;
    enum device_class class = by_name(nvidia_names, limits->identity ? limits->identity->name : "");
    return class == CLASS_GENERIC ? CLASS_NVIDIA : class;
}

/* ---- all ---- */

enum device_class device_class_read(const struct device_limits *limits)
{
    static const struct known_name makers[] = {{"Adreno*", CLASS_ADRENO},
                                               {"Mali*", CLASS_MALI},
                                               {"Immortalis*", CLASS_MALI},
                                               {"Apple", CLASS_APPLE},
                                               {NULL, CLASS_GENERIC}};
    const struct device_identity *identity = limits->identity;
    if (limits->cpu) return CLASS_CPU;
    if (limits->nvidia_sm) return nvidia_class(limits);
    if (!identity) return CLASS_GENERIC;
    uint32_t vendor = identity->vendor_id, driver = identity->driver_id;
    if (vendor == VENDOR_AMD) return amd_class(limits);
    if (vendor == VENDOR_INTEL) return intel_class(limits);
    if (vendor == VENDOR_NVIDIA) return nvidia_class(limits);
    if (vendor == VENDOR_APPLE || driver == DRIVER_HONEYKRISP) return CLASS_APPLE;
    if (vendor == VENDOR_QUALCOMM || driver == DRIVER_TURNIP) return CLASS_ADRENO;
    if (vendor == VENDOR_ARM || driver == DRIVER_PANVK) return CLASS_MALI;
    return by_name(makers, identity->name); /* such numbers are each platform's own through OpenCL */
}

enum device_class device_class_of(const struct device_limits *limits)
{
    const char *told = getenv("WHERRY_DEVICE_CLASS");
    enum device_class class = told ? device_class_find(told) : CLASS_COUNT;
    return class < CLASS_COUNT ? class : device_class_read(limits);
}
