/* For the files of common/files*.c. */
#ifndef ICESTREAM_COMMON_FILES_PRIVATE_H
#define ICESTREAM_COMMON_FILES_PRIVATE_H

enum { FILE_MARK_SIZE = 35 };

/* Returns what file_share has set, as names of partial files have it: ".HOST-TOKEN", or "". */
const char *file_writer_mark(void);
/* Writes a mark that no other process has: the one of file_share, or a new one. */
void file_unique_mark(char mark[FILE_MARK_SIZE]);

#endif
