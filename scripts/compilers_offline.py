#!/usr/bin/env python3
"""Compiles kernels for devices that are not here, with compilers that need no driver, and tells what each takes.

    compilers_offline.py --wherry BUILD/wherry [--targets amd-gfx1100,...] [--root DIR] [--jobs N] [--kept DIR] [-o FILE]
                         -- PREPARE... [-- PREPARE...]...

PREPARE are options of `wherry prepare`: the model and what is trained. For each target the programs that the backend
would build there are written (wherry prepare --dump --target) and compiled, equal ones once:

  amd-*    OpenCL C by clang-19 (CLANG) with AMD's device libraries (DEVICE_LIBS), from Debian's clang-19 and
           rocm-device-libs: registers, spills, shared memory, waves of a SIMD unit
  intel-*  OpenCL C by ocloc: registers of a thread, spills, shared memory
  apple-*  SPIR-V, its constants set by spirv-opt, to Metal's language by spirv-cross, and that, read as C++ for
           OpenCL behind tests/metal, through clang-19's front end: of statistics only the text's bytes, but it is a program

Rows are those of data/compilers.json (scripts/compilers.sh), one for each program. --kept is a folder of what was
compiled before, by a hash of the program, the compiler's version and what this script does with it.

DIR is a root folder with newer packages whose DIR/run runs a command in it: ocloc is taken from there where it is not
on the PATH, spirv-cross and spirv-opt where it has them. Exit status 77: no compiler is here for any of the targets; 1: one refused a program, or, with
--no-spills, a program's registers do not hold what it computes with.
"""
import argparse
import concurrent.futures
import hashlib
import inspect
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CLANG = os.environ.get("CLANG", "clang-19")
DEVICE_LIBS = os.environ.get("DEVICE_LIBS", "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode")

# Of a GPU: the ISA whose small tables the device libraries have (5.2.3 knows none newer: their mathematics are the
# same), lanes of a wave, waves that a SIMD unit can hold.
AMD = {"gfx906": ("906", 64, 10), "gfx90a": ("90a", 64, 8), "gfx942": ("940", 64, 8), "gfx1030": ("1030", 32, 16),
       "gfx1100": ("1036", 32, 16), "gfx1201": ("1036", 32, 16)}


class Missing(Exception):
    """A compiler is not here: the text says which, and what to install."""


class Unable(Exception):
    """What a compiler of this version is known not to do."""


class Refused(Exception):
    """A compiler's message about a program."""


def output_of(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          timeout=600, check=False, **more)
    if done.returncode:
        said = done.stdout.strip()
        error = re.search(r"^.*\berror\b.*$", said, re.M | re.I)
        raise Refused(error.group(0)[:600] if error else said[-600:] or f"{command[0]} ended with status {done.returncode}")
    return done.stdout


def need(command, package):
    if not shutil.which(command):
        raise Missing(f"{command} is not here (Debian's package {package})")


def version_of(command, pattern):
    found = re.search(pattern, output_of(command))
    return found.group(1) if found else "of unknown version"


# ---- ELF: what objcopy refuses to read of Intel's binaries ----

def elf_sections(data):
    """Names and contents of the sections of a little-endian ELF file of 64 bits."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise Refused("what was compiled is no ELF file of 64 bits")
    table, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, table + n * size) for n in range(count)]
    text = data[headers[names][4]:headers[names][4] + headers[names][5]]
    return [(text[h[0]:text.index(b"\0", h[0])].decode(), data[h[4]:h[4] + h[5]] if h[1] != 8 else b"")
            for h in headers]


def code_bytes(sections, prefix):
    return sum(len(data) for name, data in sections if name.startswith(prefix))


def hash_of_files(paths):
    sums = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            sums.update(file.read())
    return sums.hexdigest()


class Compiler:
    """Of one target. What a result depends on beside the program is in the object's variables and its class's text."""

    def identity(self):
        return repr(sorted(vars(self).items())) + inspect.getsource(type(self))


# ---- AMD ----

class Amd(Compiler):
    def __init__(self, name, _root):
        need(CLANG, "clang-19")
        if not os.path.exists(os.path.join(DEVICE_LIBS, "ocml.bc")):
            raise Missing(f"{DEVICE_LIBS}/ocml.bc is not here (Debian's package rocm-device-libs)")
        self.gpu = name
        self.isa, self.lanes, self.most = AMD[name]
        self.compiler = f"clang {version_of([CLANG, '--version'], r'version ([0-9.]+)')}"
        self.libs = [os.path.join(DEVICE_LIBS, lib + ".bc") for lib in (
            "opencl", "ocml", "ockl", f"oclc_isa_version_{self.isa}", "oclc_abi_version_500",
            f"oclc_wavefrontsize64_{'on' if self.lanes == 64 else 'off'}", "oclc_correctly_rounded_sqrt_on",
            "oclc_daz_opt_off", "oclc_finite_only_off", "oclc_unsafe_math_off")]
        self.libs_hash = hash_of_files(self.libs)

    def command(self, source, options, out):
        links = [word for lib in self.libs for word in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", lib)]
        return [CLANG, "--target=amdgcn-amd-amdhsa", "-mcpu=" + self.gpu, "-x", "cl", "-Xclang",
                "-finclude-default-header", "-nogpulib", "-Rpass-analysis=kernel-resource-usage", "-O3", *links,
                *options, "-c", source, "-o", out]

    def compile(self, folder, program, scratch):
        with open(os.path.join(folder, program["options"]), encoding="utf-8") as file:
            options = file.read().split()
        out = os.path.join(scratch, f"{self.gpu}-{program['hash']}.o")
        said = output_of(self.command(os.path.join(folder, program["file"]), options, out))
        with open(out, "rb") as file:
            row = {"code_bytes": code_bytes(elf_sections(file.read()), ".text")}
        os.remove(out)
        return row | self.statistics(said, program)

    def statistics(self, said, program):
        kernels = said.split("Function Name: ")
        mine = next((part for part in kernels if part.startswith(program["function"])), None)
        if mine is None:
            raise Refused(f"{CLANG} has no remark about {program['function']}")

        def number(what):
            found = re.search(what + r": (\d+)", mine)
            return int(found.group(1)) if found else 0
        # Matrix units' registers hold what does not fit the others, on devices that have them. A vector register that
        # spills takes 4 bytes of each work-item; a scalar one goes to a lane of a vector register.
        shared, local = number(r"LDS Size \[bytes/block\]"), program["local_size"]
        waves = number(r"Occupancy \[waves/SIMD\]")
        return {"registers": number(r"\bVGPRs") + number("AGPRs"), "spilled": number(r"ScratchSize \[bytes/lane\]"),
                "shared": shared, "waves": self.resident(waves, shared, local), "waves_most": self.most}

    def resident(self, by_registers, shared, local):
        """The compiler's remark supposes its own work-groups; what fits here is the least of registers and shared
        memory, of which a work-group processor of RDNA has 128 KiB for four SIMD units, a compute unit of GCN and CDNA
        64 KiB for four."""
        if not shared:
            return by_registers
        groups = (128 if self.lanes == 32 else 64) * 1024 // (-(-shared // 512) * 512)
        return min(by_registers, max(1, groups * -(-local // self.lanes) // 4))


# ---- Intel ----

class Intel(Compiler):
    def __init__(self, name, root):
        self.device = name
        self.prefix = []
        if not shutil.which("ocloc"):
            if not root:
                raise Missing("ocloc is not here (Debian's package intel-ocloc with libigdfcl2, or --root)")
            self.prefix = [os.path.join(root, "run")]
        self.compiler = "ocloc " + version_of([*self.prefix, "ocloc", "--version"], r"([0-9][0-9.]+)")

    def compile(self, folder, program, scratch):
        with open(os.path.join(folder, program["options"]), encoding="utf-8") as file:
            options = file.read().strip()
        # Paths are relative: the root folder sees the current one under another name.
        output_of([*self.prefix, "ocloc", "compile", "-q", "-device", self.device, "-file",
                   os.path.join(os.path.relpath(folder, scratch), program["file"]), "-options", options,
                   "-out_dir", "out-" + self.device, "-output", program["hash"]], cwd=scratch)
        out = os.path.join(scratch, "out-" + self.device)
        made = [name for name in os.listdir(out) if name.startswith(program["hash"]) and name.endswith(".bin")]
        if not made:
            raise Refused("ocloc wrote no binary")
        with open(os.path.join(out, made[0]), "rb") as file:
            return self.statistics(elf_sections(file.read()))

    @staticmethod
    def statistics(sections):
        info = dict(sections).get(".ze_info", b"").decode(errors="replace")

        def number(what):
            found = re.search(rf"^ +{what}: +(\d+)", info, re.M)
            return int(found.group(1)) if found else 0
        # A thread has 128 registers, or 256 where half as many threads run; `simd_size` work-items share it.
        registers, simd = number("grf_count"), number("simd_size")
        if not simd:
            raise Refused("ocloc's binary has no statistics in .ze_info")
        return {"registers": registers, "spilled": -(-number("spill_size") // simd), "shared": number("slm_size"),
                "waves": 8 if registers <= 128 else 4, "waves_most": 8, "simd": simd,
                "code_bytes": code_bytes(sections, ".text")}


# ---- Metal ----

class Metal(Compiler):
    HEADERS = os.path.join(HERE, "..", "tests", "metal")

    def __init__(self, _name, root):
        need(CLANG, "clang-19")
        self.prefix = []
        if root and not subprocess.run([os.path.join(root, "run"), "spirv-cross", "--revision"], capture_output=True,
                                       check=False).returncode:
            self.prefix = [os.path.join(root, "run")]
        else:
            need("spirv-cross", "spirv-cross")
            need("spirv-opt", "spirv-tools")
        asked = [*self.prefix, "dpkg-query", "-W"]
        self.compiler = f"spirv-cross {version_of([*asked, 'spirv-cross'], r'[+.]([0-9.]+-[0-9]+)')}"
        self.others = [output_of([*asked, "spirv-tools"]), output_of([CLANG, "--version"])]
        self.headers = hash_of_files(os.path.join(at, name) for at, _, names in sorted(os.walk(self.HEADERS))
                                     for name in sorted(names))

    def compile(self, folder, program, scratch):
        fixed, text = (f"metal-{program['hash']}{end}" for end in (".spv", ".metal"))
        with open(os.path.join(folder, program["constants"]), encoding="utf-8") as file:
            constants = file.read().strip()
        try:
            # Paths are relative: a root folder sees the current one under another name.
            output_of([*self.prefix, "spirv-opt", "--set-spec-const-default-value=" + constants, "--freeze-spec-const",
                       "--fold-spec-const-op-composite", "--eliminate-dead-const",
                       os.path.join(os.path.relpath(folder, scratch), program["file"]), "-o", fixed], cwd=scratch)
            output_of([*self.prefix, "spirv-cross", "--msl", "--msl-version", "30100", fixed, "--output", text],
                      cwd=scratch)
            self.read(text, scratch)
        except Refused as why:
            if "_coopmat" in program["kernel"]: # 1.3.239 knows no matrices, 1.4.357 takes an array of them for one
                said = re.sub(r"^.*?error: ", "", str(why))
                raise Unable(f"{self.compiler} makes no program of cooperative matrices: {said}") from why
            raise
        with open(os.path.join(scratch, text), encoding="utf-8") as file:
            row = {"code_bytes": len(file.read())}
        for name in (fixed, text):
            os.remove(os.path.join(scratch, name))
        return row

    def read(self, text, scratch):
        """Metal's literals are of single precision."""
        output_of([CLANG, "-x", "clcpp", "-cl-std=clc++2021", "--target=spir64", "-fsyntax-only", "-w",
                   "-cl-single-precision-constant", "-Xclang", "-finclude-default-header", "-Xclang",
                   "-cl-ext=+cl_khr_fp16", "-I", os.path.abspath(self.HEADERS), text], cwd=scratch)


# ---- all ----

def compiler_for(target, root):
    maker, _, name = target.partition("-")
    return {"amd": Amd, "intel": Intel, "apple": Metal}[maker](name, root)


def key_of(compiler, folder, program):
    """Of all that a result depends on."""
    form = program.get("options", program.get("constants"))
    text = [compiler.identity(), hash_of_files([os.path.join(folder, program["file"]), os.path.join(folder, form)]),
            program["function"], str(program["local_size"])]
    return hashlib.sha256("\0".join(text).encode()).hexdigest()[:32]


def figures_of(job):
    """What a compiler makes of one program; of what was compiled before, what is kept of it."""
    compiler, folder, program, key, scratch, kept = job
    path = kept and os.path.join(kept, key + ".json")
    if path and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    try:
        figures = compiler.compile(folder, program, scratch)
    except Unable as why:
        return {"unable": str(why)}
    except (Refused, subprocess.TimeoutExpired) as why:
        return {"failed": str(why)}
    if path:
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(figures, file)
        os.replace(path + ".new", path)
    return figures


def row_of(target, compiler, program, figures):
    return {"device": target, "name": program["device"], "api": "metal" if isinstance(compiler, Metal) else "opencl",
            "compiler": compiler.compiler} | {
                k: program[k] for k in ("kernel", "dtype", "work", "sizes", "group", "plan", "hash")} | figures


def programs_of(wherry, target, models, kernels, scratch):
    """(folder, program) of all models' programs on a target."""
    for n, model in enumerate(models):
        folder = os.path.join(scratch, f"{target}-{n}")
        subprocess.run([wherry, "prepare", *model, "--target", target, "--dump", folder], check=True)
        with open(os.path.join(folder, "programs.json"), encoding="utf-8") as file:
            made = json.load(file)
        for program in made["programs"]:
            if not kernels or program["kernel"] in kernels:
                yield folder, program | {"device": made["device"]["name"]}


def compile_all(a, targets, scratch):
    """(rows, number of targets whose compiler is here)"""
    rows, jobs, here = [], {}, 0
    for target in targets:
        try:
            compiler = compiler_for(target, a.root and os.path.abspath(a.root))
        except Missing as why:
            print(f"{target}: skipped: {why}", file=sys.stderr)
            continue
        here += 1
        for folder, program in programs_of(a.wherry, target, a.models, a.kernels and a.kernels.split(","), scratch):
            key = key_of(compiler, folder, program)
            jobs.setdefault(key, (compiler, folder, program, key, scratch, a.kept))
            rows.append((target, compiler, program, key))
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        figures = dict(zip(jobs, pool.map(figures_of, jobs.values())))
    return [row_of(target, compiler, program, figures[key]) for target, compiler, program, key in rows], here


def models_of(words):
    """The options between `--` and `--`."""
    models = [[]]
    for word in words:
        if word == "--":
            models.append([])
        else:
            models[-1].append(word)
    return models


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--wherry", required=True, help="the command that writes the programs")
    parser.add_argument("--targets", help="names, with commas between them (default: all)")
    parser.add_argument("--root", help="a root folder with newer packages and a command `run`")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--kernels", help="only these kernels, with commas between them")
    parser.add_argument("--no-spills", action="store_true", help="a kernel that spills is a failure")
    parser.add_argument("-o", "--output", help="where the rows go (default: standard output)")
    parser.add_argument("--kept", help="a folder of what was compiled before, made if missing")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    a = parser.parse_args(words[:end])
    a.models = models_of(words[end + 1:])
    if a.kept:
        os.makedirs(a.kept, exist_ok=True)
    if a.targets:
        targets = a.targets.split(",")
    else:
        known = subprocess.run([a.wherry, "prepare", "--target", "?", "--dump", os.devnull, "-c", "minilm-l6"],
                               capture_output=True, text=True, check=False).stderr
        targets = re.findall(r"\b(?:amd|intel|apple)-\w+", known)
    # Below the current folder, which a root folder's `run` sees; of a repository, where it is no part of it.
    with tempfile.TemporaryDirectory(dir="build" if os.path.isdir("build") else ".", prefix="compilers-") as scratch:
        rows, here = compile_all(a, targets, scratch)
    for why in sorted({f"{row['device']}: {row['kernel']}: {row['unable']}" for row in rows if "unable" in row}):
        print(why, file=sys.stderr)
    rows = [row for row in rows if "unable" not in row]
    text = json.dumps({"rows": rows}, indent=1) + "\n"
    if a.output:
        with open(a.output, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)
    if a.no_spills:
        for row in rows:
            if row.get("spilled"):
                row["failed"] = (f"{row['spilled']} bytes of each work-item spill out of {row['registers']} registers: "
                                 "see core/plan/class_sizes.c and docs/tuning.md, Classes of devices")
    refused = [row for row in rows if "failed" in row]
    for row in refused:
        print(f"{row['device']}: {row['kernel']} ({row['dtype']}, {row['sizes']}): {row['failed']}", file=sys.stderr)
    if not here:
        return 77
    return 1 if refused or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
