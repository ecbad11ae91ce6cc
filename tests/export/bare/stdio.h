/* What the examples of a library ask of a C library, where there is none. */
#include <stddef.h>
typedef struct file FILE;
extern FILE *stderr;
int printf(const char *form, ...);
int fprintf(FILE *file, const char *form, ...);
