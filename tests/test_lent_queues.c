/* An application that lends a second queue for transfers: of a family that only copies where the device has one, else
 * another one of the same family, else the same again. What runs in flight give has the same bits, and goes that way.
 */
#ifdef WHERRY_HAVE_VULKAN
#include <vulkan/vulkan.h>
#endif
#include <wherry/wherry_vulkan.h>

#include "support.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#ifndef WHERRY_HAVE_VULKAN
int main(void) { return 77; }
#else

enum { HIDDEN = 64, VOCABULARY = 97, MOST_TOKENS = 100, TICKETS = 12, ROWS = 8 };

/* ---- the application's Vulkan ---- */

#define FUNCTIONS(X)                                                                                                   \
    X(EnumeratePhysicalDevices)                                                                                        \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                                          \
    X(CreateDevice)                                                                                                    \
    X(DestroyDevice)                                                                                                   \
    X(DestroyInstance)                                                                                                 \
    X(GetDeviceQueue)                                                                                                  \
    X(CreateSemaphore)                                                                                                 \
    X(DestroySemaphore)                                                                                                \
    X(SignalSemaphore)

#define DECLARE(name) static PFN_vk##name vk_##name;
FUNCTIONS(DECLARE)

static struct {
    PFN_vkGetInstanceProcAddr get;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice device;
    VkQueue queue, copier;
    uint32_t families, family, copy_family;
} app;

static bool instance_make(void)
{
    static const char *const names[] = {"libvulkan.so.1", "vulkan-1.dll", NULL};
    const VkApplicationInfo about = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_2};
    const VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &about};
    app.get = (PFN_vkGetInstanceProcAddr)library_find(names, "vkGetInstanceProcAddr");
    PFN_vkCreateInstance create = app.get ? (PFN_vkCreateInstance)app.get(NULL, "vkCreateInstance") : NULL;
    if (!create || create(&info, NULL, &app.instance)) return false;
#define LOAD(name) vk_##name = (PFN_vk##name)app.get(app.instance, "vk" #name);
    FUNCTIONS(LOAD)
    return true;
}

/* A family that computes, and one that only copies, else the same. */
static void families_choose(const VkQueueFamilyProperties *family)
{
    const VkQueueFlags more = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT;
    while (app.family < app.families && !(family[app.family].queueFlags & VK_QUEUE_COMPUTE_BIT)) app.family++;
    app.copy_family = app.family;
    for (uint32_t i = 0; i < app.families; i++)
        if (family[i].queueFlags & VK_QUEUE_TRANSFER_BIT && !(family[i].queueFlags & more)) app.copy_family = i;
}

static bool device_make(void)
{
    static const float priorities[] = {1, 1};
    uint32_t count = 1;
    VkQueueFamilyProperties family[8];
    VkResult r = vk_EnumeratePhysicalDevices(app.instance, &count, &app.physical);
    if ((r != VK_SUCCESS && r != VK_INCOMPLETE) || !count) return false;
    app.families = 8;
    vk_GetPhysicalDeviceQueueFamilyProperties(app.physical, &app.families, family);
    families_choose(family);
    const bool other = app.copy_family != app.family, second = !other && family[app.family].queueCount > 1;
    const VkDeviceQueueCreateInfo queues[] = {{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                               .queueFamilyIndex = app.family,
                                               .queueCount = second ? 2 : 1,
                                               .pQueuePriorities = priorities},
                                              {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                               .queueFamilyIndex = app.copy_family,
                                               .queueCount = 1,
                                               .pQueuePriorities = priorities}};
    VkPhysicalDeviceTimelineSemaphoreFeatures timelines = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES, .timelineSemaphore = VK_TRUE};
    const VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &timelines,
                                     .queueCreateInfoCount = other ? 2 : 1,
                                     .pQueueCreateInfos = queues};
    if (vk_CreateDevice(app.physical, &info, NULL, &app.device)) return false;
    vk_GetDeviceQueue(app.device, app.family, 0, &app.queue);
    vk_GetDeviceQueue(app.device, app.copy_family, second, &app.copier);
    printf("transfers by %s\n", other    ? "a queue of another family"
                                : second ? "another queue of the same family"
                                         : "the same queue again: the device has no other");
    return true;
}

/* ---- Wherry on it ---- */

static wherry_context *context;
static wherry_device *device;
static wherry_model *model;
static wherry_batch batches[TICKETS];
static float expected[TICKETS][ROWS * HIDDEN], out[TICKETS][ROWS * HIDDEN];
static int locks; /* submissions, of this one thread's */

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        wherry_status status_ = (call);                                                                                \
        if (status_) fail_msg("%s: %s: %s", #call, wherry_status_name(status_), wherry_last_error(context));           \
    } while (0)

static void lock(void *user) { (void)user, locks++; }
static void unlock(void *user) { (void)user; }

static wherry_vulkan_desc described(void)
{
    return (wherry_vulkan_desc){.struct_size = sizeof(wherry_vulkan_desc),
                                .api_version = VK_API_VERSION_1_2,
                                .instance = app.instance,
                                .physical_device = app.physical,
                                .device = app.device,
                                .queue = app.queue,
                                .queue_family = app.family,
                                .get_instance_proc_addr = (wherry_vulkan_get_function)app.get,
                                .queue_lock = lock,
                                .queue_unlock = unlock,
                                .transfer_queue = app.copier,
                                .transfer_queue_family = app.copy_family};
}

static int open_all(void **state)
{
    (void)state;
    const wherry_model_config config = {.struct_size = sizeof config,
                                        .layers = 2,
                                        .hidden = HIDDEN,
                                        .heads = 2,
                                        .feed_forward = 136,
                                        .vocabulary = VOCABULARY,
                                        .positions = 128,
                                        .token_types = 2};
    const wherry_context_desc about = {
        .struct_size = sizeof about, .cache_dir = getenv("WHERRY_TEST_CACHE"), .low_priority = true};
    const wherry_vulkan_desc desc = described();
    assert_int_equal(wherry_context_create(&about, &context), WHERRY_STATUS_OK);
    OK(wherry_device_wrap_vulkan(context, &desc, &device));
    OK(wherry_model_create_random(context, &config, 3, &model));
    for (uint32_t i = 0; i < TICKETS; i++) {
        const uint32_t lengths[] = {1 + i, 30 - 2 * i, 3 + 7 * i % 11, 0};
        batches[i] = support_batch(lengths, VOCABULARY, 2, i);
    }
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    wherry_model_close(model);
    wherry_device_close(device);
    wherry_context_destroy(context);
    for (int i = 0; i < TICKETS; i++) support_batch_free(&batches[i]);
    return 0;
}

static wherry_session *session_open(double max_submit_ms)
{
    const wherry_session_desc desc = {.struct_size = sizeof desc,
                                      .max_tokens = MOST_TOKENS,
                                      .dtype = WHERRY_DTYPE_F32,
                                      .max_submit_ms = max_submit_ms};
    wherry_session *made;
    OK(wherry_session_create(context, device, model, &desc, &made));
    for (int i = 0; i < TICKETS; i++) OK(wherry_encode(made, &batches[i], expected[i], ROWS * HIDDEN));
    return made;
}

static wherry_ticket *submit(wherry_session *session, int i)
{
    const wherry_submit_desc desc = {.struct_size = sizeof desc, .out = out[i], .out_floats = ROWS * HIDDEN};
    wherry_ticket *ticket;
    memset(out[i], 0, sizeof out[i]);
    OK(wherry_encode_submit(session, &batches[i], &desc, &ticket));
    return ticket;
}

static void check(int i) { assert_memory_equal(out[i], expected[i], batches[i].sequences * HIDDEN * sizeof **out); }

static void flights(wherry_session *session)
{
    wherry_ticket *tickets[TICKETS];
    for (int i = 0; i < TICKETS; i++) tickets[i] = submit(session, i);
    for (int i = 0; i < TICKETS; i++) {
        OK(wherry_ticket_wait(tickets[i], UINT64_MAX));
        check(i);
        wherry_ticket_destroy(tickets[i]);
    }
}

/* Of one that is alone, three submissions: upload, steps, download; of one that is waited for, one. */
static void test_in_flight(void **state)
{
    (void)state;
    wherry_session *session = session_open(0);
    flights(session);
    int before = locks;
    wherry_ticket *alone = submit(session, 1);
    assert_int_equal(locks - before, 2);
    OK(wherry_ticket_wait(alone, UINT64_MAX));
    assert_int_equal(locks - before, 3);
    wherry_ticket_destroy(alone);
    check(1);
    before = locks;
    OK(wherry_encode(session, &batches[2], out[2], ROWS * HIDDEN));
    assert_int_equal(locks - before, 1);
    check(2);
    flights(session);
    wherry_session_destroy(session);
}

/* In portions: the upload is with the first, the download with the last. */
static void test_portions(void **state)
{
    (void)state;
    wherry_session *session = session_open(0.05);
    flights(session);
    wherry_session_destroy(session);
}

/* Nobody takes what was cancelled, or is still under way at the session's end. */
static void test_dropped(void **state)
{
    (void)state;
    wherry_session *session = session_open(0);
    wherry_ticket *first = submit(session, 0);
    OK(wherry_ticket_cancel(first)); /* its run goes on */
    wherry_ticket *second = submit(session, 1), *third = submit(session, 2);
    OK(wherry_ticket_wait(third, UINT64_MAX));
    check(1);
    check(2);
    wherry_ticket *last = submit(session, 3);
    wherry_session_destroy(session);
    assert_int_equal(wherry_ticket_poll(last), WHERRY_STATUS_CANCELLED);
    wherry_ticket_destroy(first);
    wherry_ticket_destroy(second);
    wherry_ticket_destroy(third);
    wherry_ticket_destroy(last);
}

/* Behind a batch that waits for the application nothing is put into the queue by which that may be signaled. */
static void test_behind_held(void **state)
{
    (void)state;
    wherry_session *session = session_open(0);
    const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                            .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkSemaphore gate;
    assert_int_equal(vk_CreateSemaphore(app.device, &info, NULL, &gate), VK_SUCCESS);
    const wherry_vulkan_semaphore wait = {gate, 1};
    const wherry_vulkan_submit objects = {.struct_size = sizeof objects, .wait_count = 1, .waits = &wait};
    const wherry_submit_desc desc = {
        .struct_size = sizeof desc, .out = out[0], .out_floats = ROWS * HIDDEN, .vulkan = &objects};
    wherry_ticket *held;
    int before = locks;
    OK(wherry_encode_submit(session, &batches[0], &desc, &held));
    wherry_ticket *behind = submit(session, 1);
    assert_int_equal(wherry_ticket_wait(behind, 5000000), WHERRY_STATUS_TIMEOUT);
    assert_true(locks - before <= 2);
    const VkSemaphoreSignalInfo go = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO, .semaphore = gate, .value = 1};
    assert_int_equal(vk_SignalSemaphore(app.device, &go), VK_SUCCESS);
    OK(wherry_ticket_wait(behind, UINT64_MAX));
    check(0);
    check(1);
    wherry_ticket_destroy(held);
    wherry_ticket_destroy(behind);
    flights(session);
    wherry_session_destroy(session);
    vk_DestroySemaphore(app.device, gate, NULL);
}

/* Programs of before there was a second queue, and families that there are not. The lent queue keeps its priority. */
static void test_described(void **state)
{
    (void)state;
    wherry_device_info about;
    wherry_device *opened = NULL;
    wherry_vulkan_desc desc = described();
    OK(wherry_device_describe(device, &about));
    assert_non_null(strstr(about.priority, "the application's"));
    desc.transfer_queue_family = app.families;
    assert_int_equal(wherry_device_wrap_vulkan(context, &desc, &opened), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(wherry_last_error(context), "has no queue that copies"));
    desc.struct_size = offsetof(wherry_vulkan_desc, transfer_queue);
    OK(wherry_device_wrap_vulkan(context, &desc, &opened)); /* what is behind that is not looked at */
    wherry_device_close(opened);
    desc.struct_size--;
    assert_int_equal(wherry_device_wrap_vulkan(context, &desc, &opened), WHERRY_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(wherry_last_error(context), "struct_size"));
}

int main(void)
{
    if (!instance_make() || !device_make()) {
        printf("skipped: no Vulkan device with timelines\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_flight),   cmocka_unit_test(test_portions),  cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_behind_held), cmocka_unit_test(test_described),
    };
    int failed = cmocka_run_group_tests(tests, open_all, close_all);
    vk_DestroyDevice(app.device, NULL);
    vk_DestroyInstance(app.instance, NULL);
    return failed;
}
#endif
