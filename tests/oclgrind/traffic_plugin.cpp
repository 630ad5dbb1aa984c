/* An Oclgrind plugin that counts what kernels read and write of global memory, and writes it to the file named by
 * WHERRY_TRAFFIC_LOG as lines of JSON:
 *   {"allocated":ADDRESS,"bytes":N}                            every buffer, in the order of their making
 *   {"kernel":NAME,"blocks":[[ADDRESS,UR,RR,UW,RW],...]}       every launch, in order, when it has ended
 * A block is 256 bytes of memory, the alignment of the backend's tensors, that the launch has touched. Of it UR
 * different bytes were read and UW written (unique), in accesses of RR and RW bytes together (requested).
 *
 *   WHERRY_TRAFFIC_LOG=log oclgrind --plugins libtraffic_plugin.so PROGRAM */
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <oclgrind/Plugin.h>

#include <oclgrind/Context.h>
#include <oclgrind/Kernel.h>
#include <oclgrind/KernelInvocation.h>
#include <oclgrind/Memory.h>

namespace
{
constexpr size_t block_bytes = 256;

/* The bytes of one block that were touched, and those that were asked for. */
struct Counter {
    uint64_t touched[block_bytes / 64] = {};
    uint64_t requested = 0;

    void add(size_t first, size_t count)
    {
        for (size_t i = first; i < first + count; i++) touched[i / 64] |= uint64_t(1) << i % 64;
        requested += count;
    }

    unsigned unique() const
    {
        unsigned n = 0;
        for (uint64_t word : touched)
            for (; word; word &= word - 1) n++;
        return n;
    }
};

struct Block {
    Counter read, written;
};

class TrafficPlugin : public oclgrind::Plugin
{
  public:
    TrafficPlugin(const oclgrind::Context *context, FILE *log) : Plugin(context), log_(log) {}
    ~TrafficPlugin() override { std::fclose(log_); }

    /* One worker then runs all work-groups, and nothing here needs a lock. */
    bool isThreadSafe() const override { return false; }

    void memoryAllocated(const oclgrind::Memory *memory, size_t address, size_t size, cl_mem_flags,
                         const uint8_t *) override
    {
        if (memory->getAddressSpace() != oclgrind::AddrSpaceGlobal) return;
        std::fprintf(log_, "{\"allocated\":%zu,\"bytes\":%zu}\n", address, size);
        std::fflush(log_);
    }

    void kernelBegin(const oclgrind::KernelInvocation *) override { forget(); }

    void kernelEnd(const oclgrind::KernelInvocation *invocation) override
    {
        std::vector<size_t> addresses;
        for (const auto &entry : blocks_) addresses.push_back(entry.first);
        std::sort(addresses.begin(), addresses.end());
        std::fprintf(log_, "{\"kernel\":\"%s\",\"blocks\":[", invocation->getKernel()->getName().c_str());
        const char *comma = "";
        for (size_t address : addresses) {
            const Block &b = blocks_[address];
            std::fprintf(log_, "%s[%zu,%u,%llu,%u,%llu]", comma, address, b.read.unique(),
                         (unsigned long long)b.read.requested, b.written.unique(),
                         (unsigned long long)b.written.requested);
            comma = ",";
        }
        std::fprintf(log_, "]}\n");
        std::fflush(log_);
        forget();
    }

    void memoryLoad(const oclgrind::Memory *memory, const oclgrind::WorkItem *, size_t address, size_t size) override
    {
        count(memory, address, size, &Block::read);
    }
    void memoryLoad(const oclgrind::Memory *memory, const oclgrind::WorkGroup *, size_t address, size_t size) override
    {
        count(memory, address, size, &Block::read);
    }
    void memoryAtomicLoad(const oclgrind::Memory *memory, const oclgrind::WorkItem *, oclgrind::AtomicOp,
                          size_t address, size_t size) override
    {
        count(memory, address, size, &Block::read);
    }
    void memoryStore(const oclgrind::Memory *memory, const oclgrind::WorkItem *, size_t address, size_t size,
                     const uint8_t *) override
    {
        count(memory, address, size, &Block::written);
    }
    void memoryStore(const oclgrind::Memory *memory, const oclgrind::WorkGroup *, size_t address, size_t size,
                     const uint8_t *) override
    {
        count(memory, address, size, &Block::written);
    }
    void memoryAtomicStore(const oclgrind::Memory *memory, const oclgrind::WorkItem *, oclgrind::AtomicOp,
                           size_t address, size_t size) override
    {
        count(memory, address, size, &Block::written);
    }

  private:
    FILE *log_;
    std::unordered_map<size_t, Block> blocks_;
    size_t last_address_ = 1; /* of no block */
    Block *last_ = nullptr;   /* entries stay where they are when the map grows */

    void forget()
    {
        blocks_.clear();
        last_address_ = 1;
    }

    void count(const oclgrind::Memory *memory, size_t address, size_t size, Counter Block::*kind)
    {
        if (memory->getAddressSpace() != oclgrind::AddrSpaceGlobal) return;
        while (size) {
            size_t first = address % block_bytes, here = std::min(size, block_bytes - first);
            if (address - first != last_address_) {
                last_address_ = address - first;
                last_ = &blocks_[last_address_];
            }
            (last_->*kind).add(first, here);
            address += here;
            size -= here;
        }
    }
};

/* Each OpenCL context has one. */
std::unordered_map<const oclgrind::Context *, TrafficPlugin *> plugins;
} // namespace

extern "C" void initializePlugins(oclgrind::Context *context)
{
    const char *name = std::getenv("WHERRY_TRAFFIC_LOG");
    FILE *log = name ? std::fopen(name, "a") : nullptr;
    if (!log) {
        std::fprintf(stderr, "traffic_plugin: WHERRY_TRAFFIC_LOG does not name a file that can be written\n");
        return;
    }
    plugins[context] = new TrafficPlugin(context, log);
    context->registerPlugin(plugins[context]);
}

extern "C" void releasePlugins(oclgrind::Context *context)
{
    auto found = plugins.find(context);
    if (found == plugins.end()) return;
    context->unregisterPlugin(found->second);
    delete found->second;
    plugins.erase(found);
}
