// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens the folder of a store safely, creates it, and reads entries from it. Writing is in publish.c.
#include "cache/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "cache/entry.h"
#include "cache/scan.h"

bool kiln_store_name_ok(const char *name) {
  size_t length = strlen(name);
  return length >= 1 && length <= 40 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == length;
}

void kiln_store_entry_name(const kiln_digest *key, char out[KILN_STORE_NAME]) {
  char hex[KILN_DIGEST_HEX + 1];
  kiln_digest_hex(key, hex);
  snprintf(out, KILN_STORE_NAME, "entries/%.2s/%s", hex, hex + 2);
}

// -------------------------------------------------------------------------------------- the folder

static kiln_status refuse_everybody(const char *path, mode_t mode, kiln_error *err) {
  return kiln_fail(
      err, KILN_STATUS_DENIED,
      "cache folder %s: expected no write permission for everybody, found mode %04o: anybody could plant "
      "code (`chmod -R o-w`, or KILN_CACHE_WORLD_WRITABLE=1 where that is meant)",
      path, (unsigned)mode & 07777);
}

/// A shared store is its group's. Everybody may write neither into its folders, nor into one of those that it
/// is in, where he could put another in its place; there a sticky folder like /tmp is none of those.
static kiln_status check_everybody(const kiln_store *store, kiln_error *err) {
  static const char *const inside[] = {"", "/entries", "/staging", "/quarantine", "/spool"};
  char path[KILN_STORE_PATH + KILN_STORE_NAME * 2 + 16];
  size_t root = strlen(store->root), length;
  struct stat st;
  if (store->world_writable) return KILN_OK;
  if (*store->root != '/' && !stat(".", &st) && (st.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH)
    return refuse_everybody(".", st.st_mode, err);
  snprintf(path, sizeof path, "%s/%s", store->root, store->folder);
  length = strlen(path);
  for (size_t i = 1; i < length; i++) { // the folders on the way, the root's own among them
    if (path[i] != '/') continue;
    path[i] = 0;
    mode_t wrong = !stat(path, &st) ? st.st_mode & S_IWOTH : 0;
    if (wrong && (i >= root || !(st.st_mode & S_ISVTX))) return refuse_everybody(path, st.st_mode, err);
    path[i] = '/';
  }
  for (unsigned i = 0; i < sizeof inside / sizeof *inside; i++) {
    strcpy(path + length, inside[i]);
    if (!stat(path, &st) && st.st_mode & S_IWOTH) return refuse_everybody(path, st.st_mode, err);
  }
  return KILN_OK;
}

/// Whether what is in the opened folder can only come from whom the caller trusts.
static kiln_status check_owner(kiln_store *store, int fd, kiln_error *err) {
  struct stat st;
  int e = kiln_fs_stat(fd, &st);
  if (e)
    return kiln_fail(err, kiln_status_of_errno(-e), "cache folder %s/%s: %s", store->root, store->folder,
                     strerror(-e));
  store->owner = st.st_uid;
  if (store->shared) return check_everybody(store, err);
  uid_t self = geteuid(); // asked each time: a library cannot know whether its process changed it
  if (st.st_uid != self && (store->writable || st.st_uid != 0))
    return kiln_fail(err, KILN_STATUS_DENIED,
                     "cache folder %s/%s: expected owner %u, found %u; declare it shared to use it",
                     store->root, store->folder, (unsigned)self, (unsigned)st.st_uid);
  if (st.st_mode & 022)
    return kiln_fail(err, KILN_STATUS_DENIED,
                     "cache folder %s/%s: expected no write permission for group and others, found mode %03o",
                     store->root, store->folder, (unsigned)st.st_mode & 0777);
  return KILN_OK;
}

static int open_folder(const kiln_store *store) {
  char path[KILN_STORE_PATH + KILN_STORE_NAME * 2];
  snprintf(path, sizeof path, "%s/%s", store->root, store->folder);
  return kiln_fs_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
}

kiln_status kiln_store_open(kiln_store *store, const char *root, const char *domain, const char *space,
                            kiln_error *err) {
  atomic_init(&store->fd, -1);
  if (!*root || strlen(root) >= sizeof store->root - 160)
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "cache folder: expected a path of 1 to %zu bytes, found %zu", sizeof store->root - 161,
                     strlen(root));
  if (!kiln_store_name_ok(domain) || !kiln_store_name_ok(space))
    return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                     "cache domain and namespace: expected [a-z0-9_-]{1,40}, found \"%.60s\" and \"%.60s\"",
                     domain, space);
  snprintf(store->root, sizeof store->root, "%s", root);
  snprintf(store->folder, sizeof store->folder, "v%d/%s.%s", KILN_CACHE_FORMAT, domain, space);
  snprintf(store->domain, sizeof store->domain, "%s", domain);
  pthread_mutex_init(&store->mutex, NULL);
  int fd = open_folder(store);
  // A folder that is missing or cannot be opened is an empty store: reads miss, and writes say why.
  store->error = fd < 0 ? -fd : 0;
  if (fd < 0) return KILN_OK;
  kiln_status status = check_owner(store, fd, err);
  if (status) {
    close(fd);
    return status;
  }
  atomic_store(&store->fd, fd);
  return KILN_OK;
}

void kiln_store_close(kiln_store *store) {
  int fd = atomic_exchange(&store->fd, -1);
  if (fd >= 0) close(fd);
  if (store->root[0]) pthread_mutex_destroy(&store->mutex);
  store->root[0] = 0;
}

static int make_tag(const kiln_store *store) {
  static const char text[] =
      "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of Kiln. It may be deleted at any time.\n";
  char path[KILN_STORE_PATH + 16];
  snprintf(path, sizeof path, "%s/CACHEDIR.TAG", store->root);
  int fd = kiln_fs_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, kiln_store_mode(store, 0644));
  struct stat st;
  if (fd == -EEXIST && !kiln_fs_stat_at(AT_FDCWD, path, &st) && S_ISREG(st.st_mode) && !st.st_size)
    fd = kiln_fs_open(AT_FDCWD, path, O_WRONLY, 0); // its writer was killed in between
  if (fd < 0) return fd == -EEXIST ? 0 : fd;
  int e = kiln_fs_write(fd, text, sizeof text - 1);
  int closed = kiln_fs_close(fd);
  return e ? e : closed;
}

/// The rights of something new in a folder of a shared store, by the folder's.
static mode_t mode_below(const kiln_store *store, const struct stat *parent, mode_t most) {
  mode_t mode = (parent->st_mode | S_IRWXU) & most;
  bool same_group = parent->st_mode & S_ISGID || parent->st_gid == getegid();
  if (!same_group) mode &= (mode_t)~S_IWGRP;
  return store->world_writable ? mode : mode & (mode_t)~S_IWOTH;
}

mode_t kiln_store_mode(const kiln_store *store, mode_t most) {
  struct stat st;
  bool shared = store->shared && store->fd >= 0 && !kiln_fs_stat(store->fd, &st);
  return shared ? mode_below(store, &st, most) : most & S_IRWXU;
}

/// Makes the store's folder and those that it is in.
static int make_path(const kiln_store *store, const char *path) {
  char part[KILN_STORE_PATH + KILN_STORE_NAME * 2], parent[sizeof part];
  struct stat st;
  for (size_t i = 1; store->shared && path[i]; i++) {
    if (path[i + 1] && path[i + 1] != '/') continue;
    snprintf(part, sizeof part, "%.*s", (int)i + 1, path);
    snprintf(parent, sizeof parent, "%s", part);
    char *slash = strrchr(parent, '/');
    if (slash == parent) parent[1] = 0;
    else if (slash) *slash = 0;
    if (!stat(part, &st) || stat(slash ? parent : ".", &st)) continue;
    int e = kiln_fs_mkdir(AT_FDCWD, part, mode_below(store, &st, 0777));
    if (e && e != -EEXIST) return e;
  }
  return kiln_fs_mkdir_all(path, 0700);
}

static int make_folder(int fd, const char *name, mode_t mode) {
  struct stat st;
  int e = kiln_fs_mkdir(fd, name, mode);
  if (e != -EEXIST) return e;
  e = kiln_fs_stat_at(fd, name, &st);
  if (e) return e;
  if (S_ISDIR(st.st_mode))
    return (st.st_mode & 0700) == 0700 ? 0 : kiln_fs_chmod(fd, name, (st.st_mode & 07777) | 0700);
  e = kiln_fs_unlink(fd, name);
  return e ? e : kiln_fs_mkdir(fd, name, mode);
}

int kiln_store_heal_folder(kiln_store *store, const char *name) {
  return store->writable ? make_folder(store->fd, name, kiln_store_mode(store, 0777)) : -EROFS;
}

int kiln_store_open_own(kiln_store *store, const char *name, int flags) {
  mode_t mode = flags & O_CREAT ? kiln_store_mode(store, 0666) : 0;
  struct stat st;
  int fd = kiln_fs_open(store->fd, name, flags, mode);
  if (fd >= 0 || fd == -ENOENT || !store->writable) return fd;
  // A pipe without a reader, a socket, a folder, a link.
  if (kiln_fs_stat_at(store->fd, name, &st) || S_ISREG(st.st_mode)) return fd;
  kiln_scan_remove(store->fd, name);
  return kiln_fs_open(store->fd, name, flags, mode);
}

static int make_folders(kiln_store *store) {
  static const char *const names[] = {"entries", "staging", "quarantine"};
  char path[KILN_STORE_PATH + KILN_STORE_NAME * 2];
  snprintf(path, sizeof path, "%s/%s", store->root, store->folder);
  int e = make_path(store, path);
  if (e) return e;
  int fd = atomic_load(&store->fd);
  if (fd < 0) {
    fd = open_folder(store);
    if (fd < 0) return fd;
    if (check_owner(store, fd, NULL)) {
      close(fd);
      return -EACCES;
    }
  }
  atomic_store(&store->fd, fd);
  make_tag(store); // a comfort only
  mode_t mode = kiln_store_mode(store, 0777);
  for (unsigned i = 0; i < sizeof names / sizeof *names && !e; i++) e = make_folder(fd, names[i], mode);
  return e;
}

bool kiln_store_obstacle(const kiln_store *store, char *out, size_t size) {
  char path[KILN_STORE_PATH + KILN_STORE_NAME * 2], part[sizeof path];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s", store->root, store->folder);
  for (size_t i = 1; path[i - 1]; i++) {
    if (path[i] && path[i] != '/') continue;
    snprintf(part, sizeof part, "%.*s", (int)i, path);
    if (lstat(part, &st)) return false; // nothing stands there
    if (stat(part, &st) == 0 && S_ISDIR(st.st_mode)) continue;
    snprintf(out, size, "%s", part);
    return true;
  }
  return false;
}

int kiln_store_make(kiln_store *store) {
  if (!store->writable) return -EROFS;
  pthread_mutex_lock(&store->mutex);
  int e = store->made ? 0 : make_folders(store);
  store->made = !e;
  pthread_mutex_unlock(&store->mutex);
  return e;
}

int kiln_store_make_again(kiln_store *store) {
  char path[KILN_STORE_PATH + KILN_STORE_NAME * 2];
  if (!store->writable) return -EROFS;
  pthread_mutex_lock(&store->mutex);
  snprintf(path, sizeof path, "%s/%s", store->root, store->folder);
  int e = make_path(store, path);
  int fresh = e ? e : open_folder(store);
  if (fresh < 0) e = fresh;
  else if (check_owner(store, fresh, NULL)) e = -EACCES;
  // The old descriptor may be in use by another thread: the new folder takes over its number.
  else if (dup3(fresh, store->fd, O_CLOEXEC) < 0) e = -errno;
  if (fresh >= 0) close(fresh);
  if (!e) e = make_folders(store);
  store->made = !e;
  pthread_mutex_unlock(&store->mutex);
  return e;
}

// ----------------------------------------------------------------------------------------- reading

static kiln_outcome unreadable(kiln_cache_entry *out, int error_number, kiln_error *err) {
  out->error_number = error_number;
  kiln_fail(err, kiln_status_of_errno(error_number), "%s", strerror(error_number));
  return KILN_OUTCOME_MISS_UNREADABLE;
}

static kiln_outcome miss_of(kiln_status status, kiln_cache_entry *out) {
  if (status == KILN_STATUS_VERSION) return KILN_OUTCOME_MISS_VERSION;
  if (status == KILN_STATUS_UNTRUSTED) return KILN_OUTCOME_MISS_UNTRUSTED;
  if (status == KILN_STATUS_CORRUPT) return KILN_OUTCOME_MISS_CORRUPT;
  out->error_number = status == KILN_STATUS_LIMIT ? EFBIG : ENOMEM;
  return KILN_OUTCOME_MISS_UNREADABLE;
}

/// The blob that fields and content point into: the file itself, or what it unpacks to. Takes over `file`.
static kiln_status expand(const kiln_entry_view *view, kiln_blob *file, kiln_cache_entry *out,
                          kiln_error *err) {
  const uint8_t *raw = view->stored.bytes;
  kiln_blob *held = file;
  if (view->stored.size != view->raw_size || view->codec) {
    held = kiln_blob_create((size_t)view->raw_size);
    kiln_status status = held ? kiln_entry_unpack(view, held->bytes, err)
                              : kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "no memory");
    if (status) {
      kiln_blob_release(held);
      return status;
    }
    raw = held->bytes;
  }
  kiln_entry_point(view, raw, out);
  out->held = held;
  return KILN_OK;
}

static kiln_status check_domain(const kiln_store *store, const kiln_entry_view *view, kiln_error *err) {
  const kiln_bytes *domain = &view->labels[KILN_LABEL_DOMAIN];
  if (domain->size == strlen(store->domain) && !memcmp(domain->bytes, store->domain, domain->size))
    return KILN_OK;
  return kiln_fail(err, KILN_STATUS_UNTRUSTED, "expected domain %s, found %.*s", store->domain,
                   (int)(domain->size < 60 ? domain->size : 60), (const char *)domain->bytes);
}

/// Whether the store knows keys, by which somebody vouches for an entry or not.
static bool has_keys(const kiln_store *store) {
  return store->policy != KILN_TRUST_OFF || store->signer || store->vouched_only;
}

/// The domain, and whether somebody vouches for the entry, as far as any keys are known.
static kiln_status check_trust(const kiln_store *store, const kiln_entry_view *view, kiln_cache_entry *entry,
                               bool *warned, kiln_error *err) {
  KILN_TRY(check_domain(store, view, err));
  if (!has_keys(store)) return KILN_OK;
  kiln_status status = kiln_entry_verify(view, entry->fields.bytes, err);
  if (status) return status;
  kiln_status listed = kiln_entry_trusted(view, store->domain, store->trusted, store->trusted_count, err);
  entry->vouched =
      listed == KILN_OK ||
      (store->signer && kiln_entry_trusted(view, store->domain, store->signer, 1, NULL) == KILN_OK);
  if (store->policy == KILN_TRUST_REQUIRE || (store->vouched_only && !entry->vouched)) return listed;
  if (listed && store->policy == KILN_TRUST_WARN && warned) *warned = true;
  return KILN_OK;
}

kiln_outcome kiln_store_accept(const kiln_store *store, kiln_blob *file, const kiln_digest *key,
                               const uint8_t *fields, size_t fields_size, kiln_cache_entry *out, bool *warned,
                               kiln_error *err) {
  kiln_entry_view view;
  memset(out, 0, sizeof *out);
  kiln_status status = kiln_entry_parse(file->bytes, file->size, store->max_entry_bytes, &view, err);
  if (!status && memcmp(view.key.bytes, key->bytes, sizeof key->bytes))
    status = kiln_fail(err, KILN_STATUS_CORRUPT, "the entry is of another key");
  if (!status) status = expand(&view, file, out, err);
  if (!status && fields &&
      (out->fields.size != fields_size || memcmp(out->fields.bytes, fields, fields_size)))
    status =
        kiln_fail(err, KILN_STATUS_CORRUPT, "the stored key fields differ although the digests are equal");
  if (!status) status = check_trust(store, &view, out, warned, err);
  if (out->held != file) kiln_blob_release(file);
  if (!status) return KILN_OUTCOME_HIT_LOCAL;
  kiln_blob_release(out->held);
  memset(out, 0, sizeof *out);
  return miss_of(status, out);
}

/// Keeps the entry's time fresh, at most every recency_s seconds. A time to come is another clock's: of a server, or of
/// this machine when it was wrong.
static void refresh(const kiln_store *store, int fd, const struct stat *st) {
  if (!store->writable) return;
  int64_t age = (int64_t)time(NULL) - (int64_t)st->st_mtime;
  if (age > (int64_t)store->recency_s || age < -(int64_t)store->recency_s) kiln_fs_touch(fd);
}

bool kiln_store_touch(kiln_store *store, const kiln_digest *key) {
  char name[KILN_STORE_NAME];
  struct stat st;
  kiln_store_entry_name(key, name);
  if (store->fd < 0 || kiln_fs_stat_at(store->fd, name, &st) || !S_ISREG(st.st_mode)) return false;
  if ((int64_t)time(NULL) - (int64_t)st.st_mtime <= (int64_t)store->recency_s) return true;
  int fd = kiln_fs_open(store->fd, name, O_RDONLY, 0);
  if (fd < 0) return false;
  refresh(store, fd, &st);
  kiln_fs_close(fd);
  return true;
}

/// Whether that may be the file of an entry; HIT_LOCAL, or the kind of miss.
static kiln_outcome check_file(kiln_store *store, int fd, struct stat *out_st, kiln_cache_entry *out,
                               kiln_error *err) {
  int e = kiln_fs_stat(fd, out_st);
  const struct stat st = *out_st;
  if (e) return unreadable(out, -e, err);
  if (!S_ISREG(st.st_mode)) {
    kiln_fail(err, KILN_STATUS_CORRUPT, "expected a regular file, found mode %06o", (unsigned)st.st_mode);
    return KILN_OUTCOME_MISS_CORRUPT;
  }
  if (!store->shared && st.st_uid != store->owner) {
    kiln_fail(err, KILN_STATUS_UNTRUSTED, "expected owner %u, found %u", (unsigned)store->owner,
              (unsigned)st.st_uid);
    return KILN_OUTCOME_MISS_UNTRUSTED;
  }
  if (store->shared && !store->world_writable && st.st_mode & S_IWOTH) {
    kiln_fail(err, KILN_STATUS_UNTRUSTED, "expected no write permission for everybody, found mode %03o",
              (unsigned)st.st_mode & 0777);
    return KILN_OUTCOME_MISS_UNTRUSTED;
  }
  uint64_t size = (uint64_t)st.st_size;
  if (size < KILN_ENTRY_HEADER) {
    kiln_fail(err, KILN_STATUS_CORRUPT, "expected at least %d bytes, found %llu", KILN_ENTRY_HEADER,
              (unsigned long long)size);
    return KILN_OUTCOME_MISS_CORRUPT;
  }
  return size > store->max_entry_bytes + (1 << 20) ? unreadable(out, EFBIG, err) : KILN_OUTCOME_HIT_LOCAL;
}

static kiln_outcome read_file(kiln_store *store, int fd, bool refreshes, kiln_blob **out_file,
                              kiln_cache_entry *out, kiln_error *err) {
  struct stat st;
  kiln_outcome outcome = check_file(store, fd, &st, out, err);
  if (outcome != KILN_OUTCOME_HIT_LOCAL) return outcome;
  uint64_t size = (uint64_t)st.st_size;
  kiln_blob *file = kiln_blob_create((size_t)size);
  if (!file) return unreadable(out, ENOMEM, err);
  size_t got;
  int e = kiln_fs_read(fd, file->bytes, (size_t)size, &got);
  if (!e && got == size) {
    if (refreshes) refresh(store, fd, &st);
    *out_file = file;
    return KILN_OUTCOME_HIT_LOCAL;
  }
  kiln_blob_release(file);
  if (e) return unreadable(out, -e, err);
  kiln_fail(err, KILN_STATUS_CORRUPT, "expected %llu bytes, found %zu", (unsigned long long)size, got);
  return KILN_OUTCOME_MISS_CORRUPT;
}

/// Whether everybody may write into the folder of the entry `name`, one of many that are looked at only here.
static bool is_everybodys(const kiln_store *store, int folder, const char *name) {
  char shard[16];
  struct stat st;
  snprintf(shard, sizeof shard, "%.10s", name);
  return store->shared && !store->world_writable && !kiln_fs_stat_at(folder, shard, &st) &&
         st.st_mode & S_IWOTH;
}

/// Opens the file of an entry; HIT_LOCAL, or the kind of miss.
static kiln_outcome open_entry(kiln_store *store, const kiln_digest *key, int *out_fd, kiln_cache_entry *out,
                               kiln_error *err) {
  char name[KILN_STORE_NAME];
  memset(out, 0, sizeof *out);
  int folder = atomic_load(&store->fd);
  if (folder < 0) return KILN_OUTCOME_MISS_ABSENT;
  kiln_store_entry_name(key, name);
  int fd = kiln_fs_open(folder, name, O_RDONLY, 0);
  if (fd == -ESTALE) fd = kiln_fs_open(folder, name, O_RDONLY, 0); // a network file system that lost track
  if (fd == -ENOENT) return KILN_OUTCOME_MISS_ABSENT;
  if (fd == -ENXIO) {
    kiln_fail(err, KILN_STATUS_CORRUPT, "expected a regular file, found a socket");
    return KILN_OUTCOME_MISS_CORRUPT;
  }
  if (fd < 0) return unreadable(out, -fd, err);
  if (is_everybodys(store, folder, name)) {
    kiln_fs_close(fd);
    kiln_fail(err, KILN_STATUS_UNTRUSTED, "everybody may write into its folder");
    return KILN_OUTCOME_MISS_UNTRUSTED;
  }
  *out_fd = fd;
  return KILN_OUTCOME_HIT_LOCAL;
}

void kiln_store_look_again(kiln_store *store, const kiln_digest *key) {
  char shard[KILN_STORE_NAME];
  kiln_store_entry_name(key, shard);
  *strrchr(shard, '/') = 0;
  kiln_fs_look_again(store->fd, ".");
  kiln_fs_look_again(store->fd, "entries");
  kiln_fs_look_again(store->fd, shard);
}

static kiln_outcome read_entry(kiln_store *store, const kiln_digest *key, bool refreshes,
                               kiln_blob **out_file, kiln_cache_entry *out, kiln_error *err) {
  int fd;
  kiln_outcome outcome = open_entry(store, key, &fd, out, err);
  if (outcome != KILN_OUTCOME_HIT_LOCAL) return outcome;
  outcome = read_file(store, fd, refreshes, out_file, out, err);
  kiln_fs_close(fd); // nothing was written
  return outcome;
}

kiln_blob *kiln_store_file(kiln_store *store, const kiln_digest *key) {
  kiln_cache_entry none;
  kiln_blob *file = NULL;
  (void)read_entry(store, key, false, &file, &none, NULL);
  return file;
}

kiln_outcome kiln_store_read(kiln_store *store, const kiln_digest *key, const uint8_t *fields,
                             size_t fields_size, kiln_cache_entry *out, bool *warned, kiln_error *err) {
  kiln_blob *file = NULL;
  kiln_outcome outcome = read_entry(store, key, true, &file, out, err);
  return file ? kiln_store_accept(store, file, key, fields, fields_size, out, warned, err) : outcome;
}

enum { HEAD = 4096, PIECE = 1 << 14 };

/// The check of what follows the header of an entry of `size` bytes, by pieces. `head` is its begin, and read already.
static bool check_body(int fd, const uint8_t *head, size_t have, uint64_t size, kiln_check *out) {
  uint8_t piece[PIECE];
  kiln_check_pieces pieces;
  size_t got;
  kiln_check_begin(&pieces);
  kiln_check_add(&pieces, head + KILN_ENTRY_HEADER, have - KILN_ENTRY_HEADER);
  for (uint64_t left = size - have; left; left -= got) {
    size_t asked = left < sizeof piece ? (size_t)left : sizeof piece;
    if (kiln_fs_read(fd, piece, asked, &got) || got != asked) return false;
    kiln_check_add(&pieces, piece, got);
  }
  *out = kiln_check_end(&pieces);
  return true;
}

/// Whether the file is an intact entry of the key.
static bool is_intact(kiln_store *store, int fd, const kiln_digest *key, kiln_entry_view *out) {
  uint8_t head[HEAD];
  struct stat st;
  kiln_cache_entry ignored;
  kiln_check body;
  size_t have;
  if (check_file(store, fd, &st, &ignored, NULL) != KILN_OUTCOME_HIT_LOCAL) return false;
  const uint64_t size = (uint64_t)st.st_size;
  const size_t asked = size < sizeof head ? (size_t)size : sizeof head;
  bool intact = !kiln_fs_read(fd, head, asked, &have) && have == asked &&
                check_body(fd, head, have, size, &body) &&
                !kiln_entry_parse_head(head, have, size, &body, store->max_entry_bytes, out, NULL) &&
                !memcmp(out->key.bytes, key->bytes, sizeof key->bytes) && !check_domain(store, out, NULL);
  if (intact) refresh(store, fd, &st);
  return intact;
}

bool kiln_store_holds(kiln_store *store, const kiln_digest *key, uint64_t *out_payload, uint64_t *out_cost) {
  kiln_cache_entry ignored;
  kiln_entry_view view;
  int fd;
  if (has_keys(store) || open_entry(store, key, &fd, &ignored, NULL) != KILN_OUTCOME_HIT_LOCAL) return false;
  bool holds = is_intact(store, fd, key, &view);
  kiln_fs_close(fd);
  if (holds) *out_payload = view.sizes[3], *out_cost = view.cost_ns;
  return holds;
}
