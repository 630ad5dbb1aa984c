/* The device's timer against the host's clock. */
#ifndef WHERRY_RUNTIME_TIMER_H
#define WHERRY_RUNTIME_TIMER_H

#include "runtime/context.h"
#include "wherry/wherry_measure.h"

#endif
