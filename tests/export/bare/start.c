/* Where a program without a C library begins: it ends with what main gives, by Linux's call, which qemu understands. */
#include <stdio.h>

struct file {
    int number;
};
FILE *stderr;
int main(void);
int puts(const char *text) { return text == 0; }
int printf(const char *form, ...) { return form == 0; }
int fprintf(FILE *file, const char *form, ...) { return file == 0 && form == 0; }
unsigned long fwrite(const void *text, unsigned long size, unsigned long count, FILE *file) {
    return text && file ? size : count;
}
void _start(void) {
#ifdef __riscv
    register int result __asm__("a0") = main();
    register int number __asm__("a7") = 93;
    __asm__ volatile("ecall" : : "r"(result), "r"(number));
#else
    register int result __asm__("r0") = main();
    register int number __asm__("r7") = 1;
    __asm__ volatile("svc 0" : : "r"(result), "r"(number));
#endif
}
