/** How the FTP driver handles uncommon replies, and which commands it sends in the background. */
import { chmod, mkdir, readdir, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import type { Attributes } from '../../../src/contract/capabilities.js'
import { FtpFiles } from '../../../drivers/ftp/files.js'
import { nameCharset } from '../../../drivers/ftp/name-charset.js'
import { at, listed, namesIn, put, refuses } from '../../driver-conformance/subject.js'
import { startFtpFront, type Fate } from '../../servers/ftp-front.js'
import { startFtpLines } from '../../servers/ftp-lines.js'
import type { FtpServer } from '../../servers/ftp-process.js'
import { startPureFtpd } from '../../servers/pure-ftpd.js'
import { startVsftpd } from '../../servers/vsftpd.js'
import { sourceOf } from '../../tree/tree-fixture.js'
import { emptyFolder, ftpSkip as skip, openFtpMount as open, started } from './mount.js'
import { until } from '../../until.js'

/** A driver behind a front whose replies the test can change later. */
async function mounted(t: Test, start: () => Promise<FtpServer>, env?: Parameters<typeof open>[3]) {
  const server = await started(t, start)
  const { files, path } = await emptyFolder(server)
  const decide = { fate: (_command: string, _connection: number): Fate => 'pass' }
  const front = await startFtpFront(server.port, (command, connection) => decide.fate(command, connection))
  t.teardown(() => front.stop())
  const driver = await open(server, path, { address: `127.0.0.1:${front.port}` }, env)
  t.teardown(() => driver.close?.())
  return { driver, files, path, front, decide }
}

void t.test('FTP: a folder that cannot be entered is still listed and found by stat()', { skip }, async (t) => {
  const { driver, files, path, decide } = await mounted(t, () => startVsftpd())
  await mkdir(join(files, 'closed'))
  decide.fate = (command) => (command === `CWD ${path}/closed` ? { answer: '550 Permission denied.' } : 'pass')
  t.equal((await driver.stat(at('/closed'))).kind, 'folder')
  await refuses(t, () => namesIn(driver, '/closed'), 'denied', 'a listing')
  await refuses(t, () => put(driver, '/closed/file', 'x'), 'denied', 'a write into it')
  await refuses(t, () => driver.mkdir(at('/closed')), ['denied', 'exists'], 'a folder in its place')
  t.same(await namesIn(driver, '/'), ['closed'])
})

/** A driver on a double, whose folders are `/` and `/sub`, and whose other paths are files. */
async function onLines(t: Test, replyTo: Parameters<typeof startFtpLines>[0]) {
  const server = await startFtpLines((command) => {
    const [, verb, path = ''] = /^(\w+)(?: (.*))?$/.exec(command) ?? []
    const own = replyTo(command)
    if (own !== undefined) return own
    if (verb === 'CWD') return ['/', '/sub'].includes(path) ? '250 Done.' : '550 No such folder.'
    if (verb === 'MDTM') return '213 20250203040506'
    return verb === 'SIZE' ? '550 Not a plain file.' : undefined
  })
  t.teardown(() => server.stop())
  const account = { port: server.port, username: 'ada', password: 'word' }
  const driver = await open(account, '/')
  t.teardown(() => driver.close?.())
  return { driver, commands: server.commands }
}

void t.test('FTP reads the modes that SELinux, macOS and ACLs mark', async (t) => {
  const { driver } = await onLines(t, (command) =>
    command === 'LIST -a'
      ? [
          'total 12',
          'drwxr-xr-x.  2 ftp ftp 4096 Feb 03  2025 .',
          'drwxr-xr-x.  2 ftp ftp 4096 Feb 03  2025 sub',
          '-rw-r--r--@  1 ftp ftp    5 Feb 03  2025 file',
          '-rw-r--r--+  1 ftp ftp    7 Feb 03  2025 other',
        ]
      : undefined,
  )
  t.match(await listed(driver, '/'), [
    { name: 'file', size: 5 },
    { name: 'other', size: 7 },
    { name: 'sub', kind: 'folder' },
  ])
})

void t.test('FTP: a folder with lines of which none can be read is an error, not empty', async (t) => {
  const readable = '-rw-r--r-- 1 ftp ftp 5 Feb 03 2025 file'
  const dots = ['drwxr-xr-x 2 ftp ftp 4096 Feb 03 2025 .', 'drwxr-xr-x 2 ftp ftp 4096 Feb 03 2025 ..']
  let lines: readonly string[] = []
  const { driver } = await onLines(t, (command) => (command === 'LIST -a' ? lines : undefined))
  for (const unreadable of [
    ['FILE.TXT;1  3  3-FEB-2025 04:05  [ADA]  (RWED)'],
    [...dots, 'x'],
    ['total 3', 'x', 'y'],
  ]) {
    lines = unreadable
    await refuses(t, () => namesIn(driver, '/'), 'unavailable', unreadable.join())
  }
  for (const empty of [[], dots, ['total 0'], ['']]) {
    lines = empty
    t.same(await namesIn(driver, '/'), [])
  }
  lines = ['what is this', readable]
  t.match(await listed(driver, '/'), [{ name: 'file' }, { kind: 'file' }], 'one of them can be read')
})

void t.test('FTP on a server that answers SIZE for folders', async (t) => {
  const { driver } = await onLines(t, (command) => {
    if (command === 'LIST -a')
      return ['drwxr-xr-x 2 ftp ftp 4096 Feb 03  2025 sub', '-rw-r--r-- 1 ftp ftp 5 Feb 03  2025 file']
    return command.startsWith('SIZE ') ? '213 4096' : undefined
  })
  t.match(await driver.stat(at('/sub')), { kind: 'folder' })
  t.match(await driver.stat(at('/file')), { kind: 'file', size: 4096 })
  await refuses(t, () => driver.mkdir(at('/sub')), 'exists', 'a folder in its place')
  await refuses(t, () => put(driver, '/sub', 'x'), 'is_folder', 'a write in its place')
})

void t.test('FTP lists without options on a server that takes them for a path, and remembers that', async (t) => {
  let refusal = '550 -a: no such file or directory.'
  const replyTo = (command: string) =>
    command === 'LIST -a' ? refusal : command === 'LIST' ? ['-rw-r--r-- 1 ftp ftp 5 Feb 03  2025 file'] : undefined
  const { driver, commands } = await onLines(t, replyTo)
  for (let round = 0; round < 3; round++) t.same(await namesIn(driver, '/'), ['file'])
  const sent = (lists: readonly string[]) => lists.filter((command) => command.startsWith('LIST'))
  t.same(sent(commands), ['LIST -a', 'LIST', 'LIST', 'LIST'])
  refusal = '450 Try again later.'
  const other = await onLines(t, replyTo)
  await refuses(t, () => namesIn(other.driver, '/'), 'denied', 'a refusal that is not about the option')
  t.same(sent(other.commands), ['LIST -a'])
})

for (const [name, start] of [
  ['Pure-FTPd', startPureFtpd],
  ['vsftpd', startVsftpd],
] as const) {
  const title = `${name}: no connection stays in a listed folder, so that it can be removed over another connection`
  void t.test(title, { skip }, async (t) => {
    const { driver, path, decide } = await mounted(t, () => start())
    await Promise.all(Array.from({ length: 6 }, () => listed(driver, '/')))
    const begun = async (folder: string) => {
      for await (const page of driver.pages(at(folder))) if (page.length > 0) break
    }
    // As servers on Windows do, and servers whose files are on one.
    const folders = new Map<number, string>()
    decide.fate = (command, connection) => {
      const [verb, argument] = [command.slice(0, 4).trim(), command.slice(4)]
      if (verb === 'CWD') folders.set(connection, argument)
      const isInUse = verb === 'RMD' && [...folders.values()].includes(argument)
      return isInUse ? { answer: '550 The folder is in use.' } : 'pass'
    }
    for (let round = 0; round < 100; round++) {
      const [above, below] = [`/above ${round}`, `/above ${round}/[listed]`]
      for (const folder of [above, below]) await driver.mkdir(at(folder))
      await Promise.all([listed(driver, below), listed(driver, above), round < 5 && begun(above)])
      if ([...folders.values()].some((folder) => folder.startsWith(`${path}/above`))) {
        t.fail(`a connection still has its working directory there: ${[...folders.values()].join()}`)
        break
      }
      for (const folder of [below, above]) await driver.remove(at(folder))
    }
    t.same(await namesIn(driver, '/'), [])
  })
}

void t.test('FTP reports a root that the server does not show as unavailable, not as missing', { skip }, async (t) => {
  for (const start of [() => startVsftpd(), () => startPureFtpd()]) {
    const { driver, path, decide } = await mounted(t, start)
    decide.fate = (command) =>
      /^(CWD|MLST|MLSD) /.test(command) && command.endsWith(` ${path}`) ? { answer: '550 No.' } : 'pass'
    await refuses(t, () => driver.stat(at('/')), 'unavailable', 'stat of the root')
    await refuses(t, () => namesIn(driver, '/'), 'unavailable', 'a listing')
    decide.fate = () => 'pass'
    t.equal((await driver.stat(at('/'))).kind, 'folder')
  }
})

void t.test(
  'FTP ignores a mode that the server does not implement, and reports one that it refuses',
  { skip },
  async (t) => {
    const { driver, decide } = await mounted(t, () => startPureFtpd())
    t.same(driver.traits?.keeps, [])
    const { mode } = await put(driver, '/file', 'x')
    const modified = new Date(1_000_000_000_000)
    const set = async (to: Attributes) => driver.setAttributes?.(at('/file'), to)
    const answer = (text: string) => {
      decide.fate = (command) => (command.startsWith('SITE CHMOD ') ? { answer: text } : 'pass')
    }
    answer('502 Not implemented.')
    await set({ mode: 0o600, modified })
    t.match(await driver.stat(at('/file')), { mode, modified }, 'the time is set')
    answer('550 Permission denied.')
    await refuses(t, () => set({ mode: 0o600 }), 'denied', 'a refused mode')
  },
)

void t.test('FTP sends no special bits, and those of a folder again', { skip }, async (t) => {
  const { driver, files, decide } = await mounted(t, () => startPureFtpd())
  const sent: string[] = []
  decide.fate = (command) => {
    if (command.startsWith('SITE CHMOD ')) sent.push(command.split(' ')[2] ?? '')
    return 'pass'
  }
  const set = async (name: string, mode: number) => driver.setAttributes?.(at(name), { mode })
  await driver.write(at('/file'), sourceOf('x'), { mode: 0o6750 })
  await chmod(join(files, 'file'), 0o6755)
  await put(driver, '/file', 'xy')
  await set('/file', 0o4000)
  await driver.mkdir(at('/folder'))
  await chmod(join(files, 'folder'), 0o2755)
  await set('/folder', 0o1007)
  t.same(sent, ['750', '755', '600', '2707'])
  const modeOf = async (name: string) => ((await stat(join(files, name))).mode & 0o7777).toString(8)
  t.same([await modeOf('file'), await modeOf('folder')], ['600', '2707'])
})

void t.test('FTP removes orphaned staged files one after another, over few connections', { skip }, async (t) => {
  const instance = { name: 'this-run', isOver: () => true }
  const { driver, files, front, decide } = await mounted(t, () => startPureFtpd(), { instance })
  for (let index = 0; index < 50; index++) {
    await writeFile(join(files, `.~tidegate-part-dead-run-${String(index).padStart(12, '0')}`), 'x')
  }
  const deleted = new Set<string>()
  decide.fate = (command) => {
    if (command.startsWith('DELE ')) deleted.add(command)
    return 'pass'
  }
  for (let round = 0; round < 3; round++) t.same(await namesIn(driver, '/'), [])
  await until(async () => (await readdir(files)).length === 0)
  t.same(await readdir(files), [])
  t.equal(deleted.size, 50)
  t.ok(front.made <= 5, `${front.made} connections`)
})

void t.test('FTP lists more symlinks than it caches', { skip }, async (t) => {
  const { driver, files } = await mounted(t, () => startPureFtpd())
  await writeFile(join(files, 'file'), 'content')
  const names = Array.from({ length: 1500 }, (_, index) => `link-${index}`)
  for (const name of names) await symlink('file', join(files, name))
  const entries = await listed(driver, '/')
  t.equal(entries.filter(({ isSymlink, size }) => isSymlink === true && size === 7).length, names.length)
  t.equal(new Set(entries.map(({ name }) => name)).size, names.length + 1)
})

void t.test('FTP parses a listing in pages even if it arrives in one chunk', async (t) => {
  const files = new FtpFiles('', nameCharset(''), { changesFolder: false })
  const lines = Array.from({ length: 30_000 }, (_, index) => `type=file;size=${index}; name ${index}\r\n`).join('')
  const features = { machineListings: true, setsTimes: true, restarts: true, tellsSizes: true, tellsTimes: true }
  const on = { features }
  let next = 0
  for await (const page of files.pages(Readable.from([Buffer.from(lines)]), on)) {
    for (const { name, size } of page) {
      if (name !== `name ${next}` || size !== next) t.fail(`${name} instead of ${next}`)
      next++
    }
  }
  t.equal(next, 30_000)
  const endless = files.pages(Readable.from([Buffer.alloc(100_000, 'x')]), on)
  await refuses(t, () => endless.next(), 'unavailable', 'a line without end')
})
