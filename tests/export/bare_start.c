/* Where a program without a C library begins: it ends with what main gives, by Linux's call, which qemu-arm understands. */
int main(void);
int puts(const char *text) { return text == 0; }
int printf(const char *form, ...) { return form == 0; }
int fprintf(void *file, const char *form, ...) { return file == form; }
unsigned long fwrite(const void *text, unsigned long size, unsigned long count, void *file) {
    return file == text ? size : count;
}
void *_impure_ptr;
void _start(void) {
    register int result __asm__("r0") = main();
    register int number __asm__("r7") = 1;
    __asm__ volatile("svc 0" : : "r"(result), "r"(number));
}
