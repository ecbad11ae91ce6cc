/* The memory functions that the archive of a library has. */
#include <stddef.h>
void *memcpy(void *target, const void *source, size_t bytes);
