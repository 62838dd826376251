// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and writes the list of trusted and revoked public keys.
#include "tools/cache/trusted_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "tools/common/cli.h"

enum { MOST_BYTES = 1 << 20 };

static kiln_status parse_line(char *line, kiln_trust_key *out, bool *found) {
  char *save, *words[5];
  unsigned count = 0;
  *found = false;
  line[strcspn(line, "#")] = 0;
  for (char *w = strtok_r(line, " \t\r", &save); w && count < 5; w = strtok_r(NULL, " \t\r", &save))
    words[count++] = w;
  if (!count) return KILN_OK;
  bool trust = count == 4 && !strcmp(words[0], "trust"), revoke = count == 3 && !strcmp(words[0], "revoke");
  memset(out, 0, sizeof *out);
  if ((!trust && !revoke) || strlen(words[1]) >= sizeof out->name ||
      !key_file_hex(words[2], out->public_key, KEY_FILE_PUBLIC) ||
      (trust && strlen(words[3]) >= sizeof out->domains))
    return KILN_STATUS_INVALID_ARGUMENT;
  strcpy(out->name, words[1]);
  if (trust) strcpy(out->domains, words[3]);
  out->revoked = revoke;
  *found = true;
  return KILN_OK;
}

kiln_status cache_trust_read(const char *path, cache_trust_list *out, kiln_error *err) {
  kiln_buffer text = {0};
  out->count = 0;
  struct stat st;
  if (stat(path, &st) && errno == ENOENT) return KILN_OK;
  if (st.st_mode & 022 || (st.st_uid != geteuid() && st.st_uid))
    return kiln_fail(err, KILN_STATUS_DENIED,
                     "%s: expected a list that only user %u can write, found owner %u and mode %03o", path,
                     (unsigned)geteuid(), (unsigned)st.st_uid, (unsigned)st.st_mode & 0777);
  kiln_status status = cli_read_file(path, "", MOST_BYTES, &text, err);
  unsigned number = 0;
  char *save;
  // strtok_r merges empty lines; numbers count the others.
  for (char *line = status ? NULL : strtok_r((char *)text.bytes, "\n", &save); line && !status;
       line = strtok_r(NULL, "\n", &save)) {
    kiln_trust_key key;
    bool found;
    number++;
    status = parse_line(line, &key, &found);
    if (status)
      kiln_fail(err, status,
                "%s: line %u that is not empty: expected \"trust NAME KEY DOMAINS\" or \"revoke NAME KEY\"",
                path, number);
    else if (found && out->count == CACHE_TRUST_KEYS)
      status = kiln_fail(err, KILN_STATUS_LIMIT, "%s: more than %d keys", path, CACHE_TRUST_KEYS);
    else if (found) out->keys[out->count++] = key;
  }
  kiln_buffer_deinit(&text);
  return status;
}

kiln_status cache_trust_write(const char *path, const cache_trust_list *list, kiln_error *err) {
  kiln_buffer text = {0};
  char digits[2 * KEY_FILE_PUBLIC + 1], folder[4096];
  for (uint32_t i = 0; i < list->count; i++) {
    const kiln_trust_key *k = &list->keys[i];
    sodium_bin2hex(digits, sizeof digits, k->public_key, KEY_FILE_PUBLIC);
    kiln_buffer_format(&text, "%s %s %s%s%s\n", k->revoked ? "revoke" : "trust", k->name, digits,
                       k->revoked ? "" : " ", k->revoked ? "" : k->domains);
  }
  snprintf(folder, sizeof folder, "%s", path);
  char *slash = strrchr(folder, '/');
  if (slash && slash != folder) {
    *slash = 0;
    kiln_fs_mkdir_all(folder, 0700); // the write says it when this failed
  }
  kiln_status status = text.failed ? kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory")
                                   : cli_write_file(path, text.bytes, text.size, err);
  kiln_buffer_deinit(&text);
  return status;
}
