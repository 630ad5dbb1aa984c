/* Which device this is, and by which driver and compiler: what is known of some devices goes by it. */
#ifndef WHERRY_PLAN_DEVICE_IDENTITY_H
#define WHERRY_PLAN_DEVICE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

enum device_api { DEVICE_API_NONE, DEVICE_API_VULKAN, DEVICE_API_OPENCL }; /* NONE: the host itself */

enum {
    VENDOR_AMD = 0x1002,
    VENDOR_APPLE = 0x106B,
    VENDOR_ARM = 0x13B5,
    VENDOR_INTEL = 0x8086,
    VENDOR_NVIDIA = 0x10DE,
    VENDOR_QUALCOMM = 0x5143,
    VENDOR_MESA = 0x10005
};

/* Numbers of Vulkan's VkDriverId. */
enum {
    DRIVER_AMD_PROPRIETARY = 1,
    DRIVER_AMD_OPEN_SOURCE = 2, /* AMDVLK */
    DRIVER_RADV = 3,
    DRIVER_NVIDIA_PROPRIETARY = 4,
    DRIVER_INTEL_WINDOWS = 5,
    DRIVER_INTEL_MESA = 6,
    DRIVER_QUALCOMM = 8,
    DRIVER_ARM = 9,
    DRIVER_LLVMPIPE = 13,
    DRIVER_MOLTENVK = 14,
    DRIVER_TURNIP = 18,
    DRIVER_PANVK = 20,
    DRIVER_NVK = 24,
    DRIVER_HONEYKRISP = 26
};

struct device_version {
    uint32_t part[4];
    int parts; /* 0: unknown */
};

struct device_identity {
    enum device_api api;
    uint32_t vendor_id;            /* PCI's or Khronos' number; 0: unknown */
    uint32_t device_id;            /* Vulkan's; 0: unknown */
    uint32_t driver_id;            /* VkDriverId; 0: unknown, as through OpenCL */
    struct device_version driver;  /* Mesa 22.3.6 is 22.3.6, whatever its number is packed into */
    struct device_version release; /* of `compiler`: of E031.38.11 it is 38.11 */
    char compiler[16];             /* "E031" of Qualcomm's "E031.38.11", "DX", ...; "": it tells none */
    char driver_text[256];         /* as the driver says it, with the platform's name through OpenCL */
    char name[256];                /* likewise the device */
};

/* The first number with a point in it ("Mesa 22.3.6 (git)": 22.3.6); none: parts is 0. */
struct device_version version_read(const char *text);
/* VkPhysicalDeviceProperties.driverVersion, as that driver packs it. */
struct device_version version_unpack(uint32_t packed, uint32_t vendor_id, uint32_t driver_id);
/* `range`: "" or NULL: any; "A..B" from A to B, both included, "A..<B" without B, either may be missing; "A": A alone.
 * Only the numbers that a bound gives are compared: 101.8860.1 is within "101.8509..101.8860". An unknown version is
 * in no range but "". */
bool version_within(const struct device_version *version, const char *range);
/* Finds Qualcomm's name of its compiler ("E031.38.11.04", "EV031.32.02", "DX.17.02") in a text of the driver's. */
void compiler_read(const char *text, struct device_identity *identity);
/* Sets driver and compiler from what driver_text says, else from the packed version (0: none). The other members are
 * there. */
void identity_versions(struct device_identity *identity, const char *driver_text, uint32_t packed);

#endif
