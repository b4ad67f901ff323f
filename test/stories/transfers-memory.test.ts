/**
 * A large file is copied between storages by a task: memory remains near that of an idle daemon, and the copy is exact.
 */
import { execFile } from 'node:child_process'
import { mkdir, open, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { startDaemon } from '../gateway.js'
import { resident, risen } from '../resident-memory.js'
import { mount } from '../servers/remotes.js'

const run = promisify(execFile)
const mebibyte = 1024 * 1024
const size = Number(process.env.TIDEGATE_LARGE_MIB ?? 256) * mebibyte

void t.test(
  'memory does not grow with the size of a copy between storages',
  { timeout: 4 * 3_600_000, skip: process.platform !== 'linux' && 'reads /proc' },
  async (t) => {
    const disks = t.testdir({ left: {}, right: {} })
    const file = await open(join(disks, 'left', 'large'), 'w')
    // A sparse file with data at both ends.
    await file.write('begin', 0)
    await file.write('end', size - 3)
    await file.close()
    const daemon = await startDaemon(t)
    const storages = ['left', 'right'].map((name) => {
      return { mountPath: `/${name}`, driver: 'Local', addition: { root_folder_path: join(disks, name) } }
    })
    await mount(daemon, daemon.adminPassword, storages)
    const json = { 'Content-Type': 'application/json' }
    const post = async (path: string, body: object, token = '') => {
      const headers = { ...json, Authorization: token }
      const response = await fetch(daemon.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
      return ((await response.json()) as { data: unknown }).data
    }
    const login = { username: 'admin', password: daemon.adminPassword }
    const { token } = (await post('/api/auth/login', login)) as { token: string }
    const undone = async () => {
      const response = await fetch(`${daemon.url}/api/task/copy/undone`, { headers: { Authorization: token } })
      return ((await response.json()) as { data: readonly unknown[] }).data.length
    }
    await mkdir(join(disks, 'right', 'target'))
    const idle = await resident(daemon)
    const rise = await risen(daemon, idle, async () => {
      await post('/api/fs/copy', { src_dir: '/left', dst_dir: '/right/target', names: ['large'] }, token)
      while ((await undone()) > 0) await wait(50)
    })
    t.ok(rise <= 150, `${rise} MiB above idle for ${size / mebibyte} MiB`)
    const copy = join(disks, 'right', 'target', 'large')
    t.equal((await stat(copy)).size, size)
    await run('cmp', [join(disks, 'left', 'large'), copy])
    await daemon.stop()
  },
)
