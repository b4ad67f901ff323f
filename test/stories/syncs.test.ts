/**
 * Work per file does not wait for stable storage, except on storages with `sync`. Accounts and locks do. The audit
 * syncs groups of events, for which no request waits.
 */
import { execFile } from 'node:child_process'
import { readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import knex from 'knex'
import t from 'tap'
import { startDaemon, type Daemon } from '../gateway.js'
import { withoutSqlite } from '../store-location.js'
import { lacks } from '../programs.js'
import { until } from '../until.js'
import { connectAll } from './protocols.js'
import { connect } from './task-client.js'

const run = promisify(execFile)

/** A preloaded library that adds a byte to a file for every call that syncs. */
const counter = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static void count(void) {
  int file = open(getenv("TIDEGATE_TEST_SYNCS"), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (write(file, "x", 1) != 1) abort();
  close(file);
}
int fsync(int fd) { count(); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { count(); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
`

interface Counted {
  readonly daemon: Daemon
  /** Number of sync calls during the work. */
  readonly syncs: (work: () => Promise<unknown>) => Promise<number>
  /** Whether anything but the sums of the traffic was committed to the database during the work. */
  readonly commits: (work: () => Promise<unknown>) => Promise<boolean>
}

const basicOf = ({ adminPassword }: Daemon) => `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`

async function startCounted(t: Parameters<typeof startDaemon>[0]): Promise<Counted> {
  const folder = t.testdir()
  const [library, file] = [join(folder, 'counter.so'), join(folder, 'syncs')]
  await writeFile(join(folder, 'counter.c'), counter)
  await run('gcc', ['-shared', '-fPIC', '-o', library, join(folder, 'counter.c'), '-ldl'])
  Object.assign(process.env, { LD_PRELOAD: library, TIDEGATE_TEST_SYNCS: file })
  const daemon = await startDaemon(t)
  delete process.env.LD_PRELOAD
  const counted = async () => (await stat(file)).size
  const filename = join(daemon.dataFolder, 'data.db')
  const database = knex({ client: 'sqlite3', connection: { filename }, useNullAsDefault: true })
  t.teardown(() => database.destroy())
  const put = (path: string) =>
    fetch(daemon.davUrl.replace(/\/$/, '') + path, {
      method: 'PUT',
      headers: { Authorization: basicOf(daemon) },
      body: 'x',
    })
  const version = async () => JSON.stringify(await database.raw('PRAGMA data_version'))
  return {
    daemon,
    syncs: async (work) => {
      const before = await counted()
      await work()
      return (await counted()) - before
    },
    commits: async (work) => {
      // The gateway stores the sums some time after a change, and again ten seconds later at the earliest.
      const sums = async () => JSON.stringify(await database('traffic').where({ period: 'day' }).first())
      const stored = await sums()
      await put('/change')
      await until(async () => (await sums()) !== stored)
      const before = await version()
      await work()
      return (await version()) !== before
    },
  }
}

void t.test(
  'work that is done once per file does not wait for stable storage',
  { skip: lacks('gcc') || withoutSqlite },
  async (t) => {
    const { daemon, syncs, commits } = await startCounted(t)
    const admin = await connect(daemon)
    const basic = basicOf(daemon)
    const dav = async (method: string, path: string, headers: Record<string, string> = {}, body?: string) => {
      const response = await fetch(daemon.davUrl.replace(/\/$/, '') + path, {
        method,
        headers: { Authorization: basic, ...headers },
        ...(body !== undefined && { body }),
      })
      await response.arrayBuffer()
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status}`)
    }
    const setProperty = (path: string) =>
      dav(
        'PROPPATCH',
        path,
        {},
        '<propertyupdate xmlns="DAV:"><set><prop><x xmlns="urn:x">1</x></prop></set></propertyupdate>',
      )
    const destination = (path: string) => ({ Destination: daemon.davUrl.replace(/\/$/, '') + path, Overwrite: 'T' })

    const files = 50
    const audited = await syncs(async () => {
      // Concurrently: groups are made by time too, and a busy machine takes long for one request after the other.
      const one = async (file: number) => {
        await dav('PUT', `/audited-${file}`, {}, 'content')
        await dav('DELETE', `/audited-${file}`)
      }
      await Promise.all(Array.from({ length: files }, (_, file) => one(file)))
    })
    t.ok(audited < files / 2, `the audit syncs groups, not each file: ${audited} times`)
    await admin.post('/api/admin/setting/save', [{ key: 'audit_enabled', value: 'false' }])
    const sizeOf = (name: string) =>
      stat(join(daemon.dataFolder, 'audit', name)).then(
        ({ size }) => size,
        () => 0,
      )
    await until(async () => {
      const sizes = await Promise.all((await readdir(join(daemon.dataFolder, 'audit'))).map(sizeOf))
      return sizes.every((size) => size === 0)
    })
    for (const client of await connectAll(daemon, { username: 'admin', password: daemon.adminPassword })) {
      const at = (name: string) => `/${client.protocol}/${name}`
      const work = async () => {
        t.equal(await client.makeFolder(`/${client.protocol}`), 'done')
        t.equal(await client.makeFolder(at('folder')), 'done')
        for (let file = 0; file < 5; file++) {
          t.equal(await client.put(at(`new-${file}`), Buffer.from('content')), 'done')
          t.equal(await client.rename(at(`new-${file}`), at(`named-${file}`)), 'done')
          t.equal(await client.rename(at(`named-${file}`), at(`folder/moved-${file}`)), 'done')
        }
        t.equal(await client.rename(at('folder'), at('renamed')), 'done')
        t.equal(await client.remove(at('renamed/moved-0')), 'done')
      }
      let count = NaN
      const committed = await commits(async () => {
        count = await syncs(work)
      })
      t.equal(count, 0, `${client.protocol}: nothing is synced`)
      t.notOk(committed, `${client.protocol}: nothing is committed without rows`)
      await client.close()
    }
    const replacing = async () => {
      await dav('PUT', '/one', {}, 'one')
      await dav('PUT', '/other', {}, 'other')
      await dav('MOVE', '/one', destination('/other'))
    }
    t.notOk(await commits(replacing), 'nothing is committed if a file replaces another one')
    t.equal(
      await syncs(async () => {
        await setProperty('/other')
        await dav('MOVE', '/other', destination('/named'))
        await setProperty('/named')
        await dav('DELETE', '/named')
      }),
      0,
      'properties and rows that follow a rename are committed, and not synced',
    )

    const lock = '<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>'
    t.ok(await syncs(() => dav('LOCK', '/webdav/renamed', {}, lock)), 'a lock is synced')
    const addition = JSON.stringify({ root_folder_path: t.testdir({ disk: {} }) + '/disk', sync: true })
    await admin.post('/api/admin/storage/create', { mount_path: '/durable', driver: 'Local', addition })
    await dav('PUT', '/durable/file', {}, 'content')
    t.ok(await syncs(() => setProperty('/durable/file')), 'properties on a storage with sync are synced')
    // Two for the folder, one for the intent, and one for the rows that follow.
    const folders = await syncs(() => dav('MOVE', '/durable/file', destination('/durable/named')))
    await dav('PUT', '/durable/plain', {}, 'content')
    const plain = await syncs(() => dav('MOVE', '/durable/plain', destination('/durable/other')))
    t.equal(folders - plain, 2, 'the intent and the rows of a rename are synced, if there are any')
    t.equal(await daemon.stop(), 0)
  },
)
