// The same as C++.
#include "app.c"
