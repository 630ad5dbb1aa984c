/* All that Oclgrind's Kernel.h wants of LLVM's header: that there is such a type. So the plugin needs no LLVM. */
#pragma once

namespace llvm
{
class StringRef;
}
