/**
 * Faults of the disk below Local: full, read-only, forbidden, several file systems; and what a killed process leaves.
 */
import { execFile, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { MountTable } from '../../../drivers/local/mount-table.js'
import {
  at,
  bytesAt,
  endless,
  namesIn,
  put,
  refuses,
  source,
  textAt,
  type WritableDriver,
} from '../../driver-conformance/subject.js'
import { openLocal } from '../env.js'

const run = promisify(execFile)
const canMount = process.platform === 'linux' && process.getuid?.() === 0
const needsRoot = canMount ? false : 'only root can mount'

async function folderFor(t: Test): Promise<string> {
  const folder = await mkdtemp(join(await realpath(tmpdir()), 'tidegate-faults-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

async function mounted(t: Test, folder: string, options: string): Promise<void> {
  await run('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder])
  t.teardown(() => run('umount', ['-l', folder]))
}

await t.test('Local reports a full disk as no_space, and the old file is unchanged', { skip: needsRoot }, async (t) => {
  const folder = await folderFor(t)
  await mounted(t, folder, 'size=4m')
  const driver = (await openLocal(folder)) as WritableDriver
  await put(driver, '/file', 'old')
  for (const path of ['/file', '/new']) {
    await refuses(t, () => put(driver, path, Buffer.alloc(8_000_000)), 'no_space', path)
  }
  const handle = await driver.open?.(at('/file'), 'replace')
  await refuses(t, async () => handle?.write?.([Buffer.alloc(8_000_000)], 0), 'no_space', 'a handle')
  await handle?.close()
  t.equal(await textAt(driver, '/file'), 'old')
  t.same(await namesIn(driver, '/'), ['file'])
  await put(driver, '/after', Buffer.alloc(2_000_000))
  await driver.close?.()
  t.same(readdirSync(folder).sort(), ['after', 'file'], 'no staged file is left')
})

await t.test('Local reports a read-only file system as denied, with the reason', { skip: needsRoot }, async (t) => {
  const folder = await folderFor(t)
  await mounted(t, folder, 'size=4m')
  writeFileSync(join(folder, 'file'), 'old')
  await run('mount', ['-o', 'remount,ro', folder])
  const driver = (await openLocal(folder)) as WritableDriver
  t.equal(await textAt(driver, '/file'), 'old')
  await t.rejects(put(driver, '/file', 'new'), { code: 'denied', reason: 'read-only file system' })
  await t.rejects(driver.mkdir(at('/folder')), { code: 'denied', reason: 'read-only file system' })
  await refuses(t, () => driver.remove(at('/file')), 'denied', 'remove')
  await refuses(t, async () => driver.move?.(at('/file'), at('/moved')), 'denied', 'move')
  await driver.close?.()
})

await t.test('Local reports missing permissions of the file system as denied', { skip: needsRoot }, async (t) => {
  const folder = await folderFor(t)
  chmodSync(folder, 0o777)
  mkdirSync(join(folder, 'closed'))
  writeFileSync(join(folder, 'closed', 'file'), 'x')
  writeFileSync(join(folder, 'unreadable'), 'x', { mode: 0o600 })
  mkdirSync(join(folder, 'unwritable'), { mode: 0o755 })
  chmodSync(join(folder, 'closed'), 0o700)
  process.setegid?.(65534)
  process.seteuid?.(65534)
  try {
    const driver = (await openLocal(folder)) as WritableDriver
    await refuses(t, () => driver.read(at('/unreadable')), 'denied', 'a file')
    await refuses(t, () => driver.stat(at('/closed/file')), 'denied', 'a folder')
    await refuses(t, () => put(driver, '/unwritable/file', 'x'), 'denied', 'a new file')
    await refuses(t, () => driver.mkdir(at('/unwritable/folder')), 'denied', 'a new folder')
    await put(driver, '/own', 'x')
    await driver.close?.()
  } finally {
    process.seteuid?.(0)
    process.setegid?.(0)
  }
})

await t.test(
  'Local changes a program of another user where the kernel removes its special bits, and no other',
  { skip: needsRoot },
  async (t) => {
    const folder = await folderFor(t)
    chmodSync(folder, 0o755)
    const program = join(folder, 'file')
    const modeNow = () => (statSync(program).mode & 0o7777).toString(8)
    const opened = async (mode: number) => {
      writeFileSync(program, 'abc')
      chmodSync(program, mode)
      process.seteuid?.(65534)
      const driver = (await openLocal(folder)) as WritableDriver
      const handle = await driver.open?.(at('/file'), 'update')
      const close = async () => {
        await handle?.close()
        await driver.close?.()
        process.seteuid?.(0)
      }
      return {
        write: async (text: string) => handle?.write?.([Buffer.from(text)], 0),
        truncate: async (size: number) => handle?.truncate?.(size),
        close,
      }
    }
    const refused = { code: 'denied', reason: 'the file has special mode bits that cannot be removed' }
    for (const [mode, later] of [
      [0o4666, '666'],
      [0o6676, '676'],
      [0o1666, undefined],
      [0o2666, undefined],
    ] as const) {
      for (const change of ['write', 'truncate'] as const) {
        const handle = await opened(mode)
        try {
          const changed = change === 'write' ? handle.write('x') : handle.truncate(1)
          if (later === undefined) await t.rejects(changed, refused, mode.toString(8))
          else await changed
          t.equal(modeNow(), later ?? mode.toString(8), change)
          const content = { write: 'xbc', truncate: 'a' }[change]
          t.equal(readFileSync(program, 'utf8'), later === undefined ? 'abc' : content, change)
        } finally {
          await handle.close()
        }
      }
    }
    const handle = await opened(0o1666)
    try {
      await t.rejects(handle.write('x'), refused)
      process.seteuid?.(0)
      chmodSync(program, 0o666)
      process.seteuid?.(65534)
      await handle.write('x')
      t.equal(readFileSync(program, 'utf8'), 'xbc', 'after somebody else has removed the bit')
    } finally {
      await handle.close()
    }
  },
)

await t.test(
  'Local writes to another file system below its root, and does not move files across',
  { skip: needsRoot },
  async (t) => {
    const folder = await folderFor(t)
    const nested = join(folder, 'nested')
    mkdirSync(nested)
    await mounted(t, nested, 'size=16m')
    const driver = (await openLocal(folder)) as WritableDriver
    t.match(await put(driver, '/nested/file', 'hello'), { size: 5 })
    await put(driver, '/nested/file', 'again')
    t.equal(await textAt(driver, '/nested/file'), 'again')
    const { source: body, body: stream } = endless(1_000_000)
    const controller = new AbortController()
    const writing = driver.write(at('/nested/file'), body, { signal: controller.signal })
    await pause(50)
    t.equal(readdirSync(nested).length, 2, 'the staged file is on the same file system')
    t.same(await namesIn(driver, '/nested'), ['file'], 'the staged file is not listed')
    controller.abort()
    await refuses(t, () => writing, 'aborted', 'write')
    t.ok(stream.destroyed)
    await refuses(t, async () => driver.move?.(at('/nested/file'), at('/moved')), 'unsupported', 'move')
    await put(driver, '/nested/only', 'x')
    await refuses(t, () => driver.write(at('/nested/only'), source('y'), { createOnly: true }), 'exists', 'createOnly')
    await driver.copy?.(at('/nested/file'), at('/copy'))
    t.equal(await textAt(driver, '/copy'), 'again', 'a copy crosses file systems')
    await driver.close?.()
    t.same(readdirSync(nested).sort(), ['file', 'only'])
    t.same(readdirSync(folder).sort(), ['copy', 'nested'])
  },
)

await t.test('Local writes to a bind mount of the same device', { skip: needsRoot }, async (t) => {
  const folder = await folderFor(t)
  mkdirSync(join(folder, 'real'))
  mkdirSync(join(folder, 'bound'))
  await run('mount', ['--bind', join(folder, 'real'), join(folder, 'bound')])
  t.teardown(() => run('umount', ['-l', join(folder, 'bound')]))
  const driver = (await openLocal(folder)) as WritableDriver
  for (const modified of [new Date(-1_000_000_123), new Date(1_000_000_000_123)]) {
    const entry = await driver.write(at('/bound/file'), source('hello'), { modified })
    t.same(entry.modified, modified)
    t.same(entry, await driver.stat(at('/bound/file')))
  }
  t.equal(await textAt(driver, '/real/file'), 'hello')
  await refuses(t, async () => driver.move?.(at('/bound/file'), at('/moved')), 'unsupported', 'move')
  await driver.close?.()
  t.same(readdirSync(join(folder, 'real')), ['file'])
})

const writer = `
import { Readable } from 'node:stream'
import { openLocal } from ${JSON.stringify(new URL('../env.js', import.meta.url).href)}
const driver = await openLocal(process.argv[1])
const body = new Readable({ read() {} })
body.push(Buffer.alloc(2_000_000, 'new'))
setTimeout(() => console.log('writing'), 100)
for (const path of process.argv.slice(2)) void driver.write(path, { rereadable: false, read: async () => body })
setInterval(() => undefined, 1000)
`

await t.test('Local: a killed process leaves the old file, and the next start removes its staged files', async (t) => {
  const folder = await folderFor(t)
  writeFileSync(join(folder, 'file'), 'old')
  if (canMount) {
    mkdirSync(join(folder, 'nested'))
    await mounted(t, join(folder, 'nested'), 'size=16m')
  }
  const paths = canMount ? ['/file', '/nested/file'] : ['/file']
  const child = spawn(process.execPath, ['--input-type=module', '-e', writer, folder, ...paths])
  await new Promise((resolve) => child.stdout.once('data', resolve))
  const staging = join(folder, '.tidegate-staging')
  t.equal(readdirSync(staging).length, 1)
  const second = await openLocal(folder)
  t.equal(readdirSync(staging).length, 1, 'staged files of a running process remain')
  child.kill('SIGKILL')
  await new Promise((resolve) => child.once('exit', resolve))
  const third = await openLocal(folder)
  t.notOk(existsSync(staging), 'those of a dead process are removed')
  if (canMount) t.same(readdirSync(join(folder, 'nested')), [], 'also on another file system')
  t.equal(await textAt(third, '/file'), 'old')
  await second.close?.()
  await third.close?.()
})

await t.test('Local keeps the staged files of another machine until they have not changed for a day', async (t) => {
  const folder = await folderFor(t)
  const staging = join(folder, '.tidegate-staging')
  const names = ['00000000-00000000-1-1-today', '00000000-00000000-1-1-yesterday', 'nobody knows']
  const longAgo = new Date(Date.now() - 25 * 3_600_000)
  for (const name of names) {
    mkdirSync(join(staging, name), { recursive: true })
    writeFileSync(join(staging, name, 'file'), 'x')
    if (name.endsWith('today')) continue
    for (const path of [join(staging, name, 'file'), join(staging, name)]) utimesSync(path, longAgo, longAgo)
  }
  const driver = await openLocal(folder)
  t.same(readdirSync(staging), ['00000000-00000000-1-1-today'])
  await driver.close?.()
})

await t.test('Local creates its staging folder again if it was removed', async (t) => {
  const folder = await folderFor(t)
  const driver = (await openLocal(folder)) as WritableDriver
  await put(driver, '/one', 'x')
  await rm(join(folder, '.tidegate-staging'), { recursive: true })
  await put(driver, '/two', 'x')
  t.same(await namesIn(driver, '/'), ['one', 'two'])
  renameSync(join(folder, '.tidegate-staging'), join(folder, 'elsewhere'))
  await put(driver, '/three', 'x')
  t.ok((await namesIn(driver, '/')).includes('three'))
  await driver.close?.()
})

await t.test('Local moves removed files to the recycle bin', async (t) => {
  const base = await folderFor(t)
  const [root, bin] = [join(base, 'root'), join(base, 'bin')]
  mkdirSync(root)
  const driver = (await openLocal(root, { recycle_bin_path: bin })) as WritableDriver
  await driver.mkdir(at('/folder'))
  await put(driver, '/folder/file', 'one')
  await driver.remove(at('/folder/file'))
  t.equal(readFileSync(join(bin, 'folder', 'file'), 'utf8'), 'one', 'under the same relative path')
  await put(driver, '/folder/file', 'two')
  await driver.remove(at('/folder/file'))
  const names = readdirSync(join(bin, 'folder')).sort()
  t.equal(names.length, 2)
  t.match(names[1], /^file_\d{14}$/, 'a name that is taken gets a timestamp')
  await put(driver, '/folder/file', 'three')
  await driver.removeTree?.(at('/folder'))
  t.same(await namesIn(driver, '/'), [])
  t.ok(
    readdirSync(bin).some((name) => /^folder_\d{14}$/.test(name)),
    'a tree is moved as a whole',
  )
  await driver.close?.()
})

await t.test('Local copies a removed tree to a recycle bin on another disk', { skip: needsRoot }, async (t) => {
  const base = await folderFor(t)
  const [root, bin] = [join(base, 'root'), join(base, 'bin')]
  mkdirSync(root)
  mkdirSync(bin)
  await mounted(t, bin, 'size=4m')
  const driver = (await openLocal(root, { recycle_bin_path: bin })) as WritableDriver
  await driver.mkdir(at('/folder'))
  await put(driver, '/folder/file', 'one')
  await driver.removeTree?.(at('/folder'))
  t.equal(readFileSync(join(bin, 'folder', 'file'), 'utf8'), 'one')
  t.same(await namesIn(driver, '/'), [])
  await driver.mkdir(at('/large'))
  await put(driver, '/large/file', Buffer.alloc(6_000_000))
  await refuses(t, async () => driver.removeTree?.(at('/large')), 'no_space', 'a full recycle bin')
  t.equal((await bytesAt(driver, '/large/file')).length, 6_000_000, 'the tree is unchanged')
  await driver.close?.()
})

await t.test('Local names an invalid option in its error', async (t) => {
  const folder = await folderFor(t)
  writeFileSync(join(folder, 'file'), '')
  await t.rejects(openLocal(join(folder, 'none')), { code: 'invalid', message: /not exists/ })
  await t.rejects(openLocal(join(folder, 'file')), { code: 'invalid' })
  await t.rejects(openLocal(folder, { mkdir_perm: '9x' }), { code: 'invalid', message: /mkdir_perm/ })
})

await t.test(
  'look() and realPath() reject a symlink to a file system that does not respond, without a call to it',
  { skip: needsRoot || (existsSync('/dev/fuse') ? false : 'the kernel has no FUSE') },
  async (t) => {
    const folder = await folderFor(t)
    const silent = join(folder, 'silent')
    for (const name of ['silent', 'root']) mkdirSync(join(folder, name))
    symlinkSync('../silent', join(folder, 'root', 'link'))
    // Nobody reads its requests.
    const device = openSync('/dev/fuse', 'r+')
    const options = 'fd=3,rootmode=40000,user_id=0,group_id=0'
    const { status } = spawnSync('mount', ['-i', '-t', 'fuse', '-o', options, 'none', silent], {
      stdio: ['ignore', 'ignore', 'inherit', device],
    })
    t.equal(status, 0)
    // Ends a call that blocks this process.
    const rescue = spawn('sh', ['-c', 'sleep 20; umount -f "$0"', silent], { stdio: 'ignore', detached: true })
    let isRescued = false
    rescue.once('exit', () => (isRescued = true))
    t.teardown(async () => {
      if (rescue.pid !== undefined && !isRescued) process.kill(-rescue.pid)
      closeSync(device)
      await run('umount', ['-l', silent]).catch(() => undefined)
    })
    const driver = (await openLocal(join(folder, 'root'))) as WritableDriver
    for (const path of ['/link/a', '/link/a/b', '/link/a/b/c'].map(at)) {
      await refuses(t, async () => driver.look?.(path), 'denied', `look ${path}`)
      await refuses(t, async () => driver.realPath?.(path), 'denied', `realPath ${path}`)
    }
    await driver.close?.()
  },
)

await t.test('MountTable distinguishes local file systems from those that may block', async (t) => {
  const line = (path: string, type: string) => `1 0 0:1 / ${path} rw - ${type} none rw`
  const table = (...lines: string[]) => new MountTable('/srv/my files', () => lines.join('\n'))
  const plain = table(line('/', 'ext4'), line('/proc', 'proc'), line('/proc/sys/fs/binfmt_misc', 'autofs'))
  t.equal(plain.mayBlock, false)
  t.equal(plain.isLocal('/srv/my files/a'), true)
  const mixed = table(line('/', 'ext4'), line('/srv/my\\040files/net', 'nfs4'), line('/srv/my\\040files/disk', 'xfs'))
  t.equal(mixed.mayBlock, true)
  t.equal(mixed.isLocal('/srv/my files/a'), true)
  t.equal(mixed.isLocal('/srv/my files/net'), false)
  t.equal(mixed.isLocal('/srv/my files/net/a'), false)
  t.equal(mixed.isLocal('/srv/my files/network'), true)
  t.equal(mixed.isLocal('/srv/my files/disk/a'), true)
  t.equal(mixed.hasForeignMountsIn('/srv/my files'), true)
  t.equal(mixed.hasForeignMountsIn('/srv/my files/disk'), false)
  const covered = table(line('/', 'ext4'), line('/srv', 'xfs'), line('/srv', 'fuse.sshfs'))
  t.equal(covered.isLocal('/srv/my files'), false, 'the last of two mounts at one point counts')
})

await t.test('MountTable notices within 20 ms that something was mounted, and reports the change once', async (t) => {
  const line = (path: string, type: string) => `1 0 0:1 / ${path} rw - ${type} none rw\n`
  let text = line('/', 'ext4')
  let changes = 0
  const table = new MountTable(
    '/home',
    () => text,
    () => changes++,
  )
  t.equal(table.hasForeignMountsIn('/home'), false)
  text += line('/home/tides', 'fuse.sshfs')
  await pause(25)
  changes = 0
  t.equal(table.hasForeignMountsIn('/home'), true)
  t.equal(table.isLocal('/home/tides'), false)
  await pause(25)
  t.equal(table.isLocal('/home/a'), true)
  t.equal(changes, 1)
})
