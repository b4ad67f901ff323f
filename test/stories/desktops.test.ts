/** Desktop programs over WebDAV: the file system of GNOME's programs, and LibreOffice, which locks open documents. */
import { execFile, spawn, spawnSync, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startGateway, type RunningGateway } from '../gateway.js'
import { lacks } from '../programs.js'
import { propfind, sender, texts } from '../protocols/webdav/dav-client.js'

const run = promisify(execFile)
const drivers = ['Local', 'Memory']

/** A separate home folder for programs that store settings and sockets there. */
async function home(t: Test): Promise<{ folder: string; environment: NodeJS.ProcessEnv }> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-desktop-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  const runtime = join(folder, 'run')
  await mkdir(runtime, { mode: 0o700 })
  return { folder, environment: { ...process.env, HOME: folder, XDG_RUNTIME_DIR: runtime, LC_ALL: 'C.UTF-8' } }
}

function gateway(t: Test, driver: string): Promise<RunningGateway> {
  return startGateway(t, driver === 'Local' ? {} : { driver: { name: driver } })
}

/** Operations of GNOME's programs. Every line must succeed. */
const filesDay = `
set -e
printf '%s\\n%s\\n' admin "$PASSWORD" | gio mount "$DAV"
gio mkdir "$DAV/fold er"
gio copy large.bin "$DAV/fold er/Übergröße & more.bin"
gio list "$DAV/fold er" | grep -x 'Übergröße & more.bin'
gio info -a standard::size "$DAV/fold er/Übergröße & more.bin" | grep 'standard::size: 3000000'
gio info -f "$DAV/" | grep -E 'filesystem::free: [0-9]+'
gio rename "$DAV/fold er/Übergröße & more.bin" renamed.bin
gio copy "$DAV/fold er/renamed.bin" "$DAV/copied.bin"
gio move "$DAV/fold er/renamed.bin" "$DAV/moved.bin"
gio copy "$DAV/copied.bin" back.bin
cmp large.bin back.bin
printf 'first' | gio save "$DAV/note.txt"
printf 'second' | gio save "$DAV/note.txt"
test "$(gio cat "$DAV/note.txt")" = second
gio remove "$DAV/copied.bin" "$DAV/fold er"
! gio list "$DAV/fold er"
gio mount -u "$DAV"
`

void t.test('GNOME’s programs', { skip: lacks('gio', 'gvfsd-dav', 'dbus-run-session') }, async (t) => {
  for (const driver of drivers) {
    await t.test(`mount, copy, rename, save and remove over ${driver}`, async (t) => {
      const running = await gateway(t, driver)
      const { folder, environment } = await home(t)
      const large = randomBytes(3_000_000)
      await writeFile(join(folder, 'large.bin'), large)
      const env = {
        ...environment,
        PASSWORD: running.adminPassword,
        DAV: `dav://${new URL(running.davUrl).host}/dav`,
      }
      await run('dbus-run-session', ['--', 'bash', '-c', filesDay], { cwd: folder, env })
      t.ok(large.equals(await readFile(join(folder, 'back.bin'))))
      const { body } = await sender(running)('PROPFIND', '/', { depth: '1' }, propfind('<D:getcontentlength/>'))
      t.same(texts(body, 'href').sort(), ['/dav/', '/dav/moved.bin', '/dav/note.txt'])
      t.same(texts(body, 'getcontentlength').filter(Boolean).sort(), ['3000000', '6'])
    })
  }
})

/** The Python interpreter that Debian's packages extend. */
const python = '/usr/bin/python3'
const script = fileURLToPath(new URL('../../../test/stories/libreoffice.py', import.meta.url))

function lacksOffice(): string | false {
  if (spawnSync(python, ['-c', 'import uno']).status === 0 || process.env.CI === 'true') return lacks('soffice')
  return 'not installed: python3-uno'
}

/** A minimal text document as flat XML. */
const letter =
  '<?xml version="1.0" encoding="UTF-8"?><office:document office:version="1.2" ' +
  'office:mimetype="application/vnd.oasis.opendocument.text" xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" ' +
  'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:text><text:p>low water</text:p>' +
  '</office:text></office:body></office:document>'

/** Starts LibreOffice without windows. Resolves to the name of its pipe. */
function startOffice(t: Test, folder: string, env: NodeJS.ProcessEnv): string {
  const pipe = `tidegate-${randomUUID()}`
  const profile = `-env:UserInstallation=file://${folder}/profile`
  const words = ['--headless', '--norestore', '--nologo', '--nodefault', profile, `--accept=pipe,name=${pipe};urp;`]
  // The launcher starts the actual program, so both are ended as a process group.
  const child = spawn('soffice', words, { cwd: folder, env, stdio: 'ignore', detached: true })
  const gone = new Promise((resolve) => child.once('exit', resolve))
  t.teardown(async () => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL')
    await gone
  })
  return pipe
}

/** The output lines of the script one by one; `go` starts its next step. */
function conversation(child: ChildProcessWithoutNullStreams): { next(): Promise<string>; go(): void } {
  let complaints = ''
  child.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()))
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  return {
    next: async () => {
      const line = await lines.next()
      if (line.done === true) throw new Error(`LibreOffice's script ended: ${complaints}`)
      return line.value
    },
    go: () => child.stdin.write('\n'),
  }
}

void t.test('LibreOffice', { skip: lacksOffice() }, async (t) => {
  for (const driver of drivers) {
    await t.test(`locks an open document on ${driver}, and saves it`, async (t) => {
      const running = await gateway(t, driver)
      const { folder, environment } = await home(t)
      const pipe = startOffice(t, folder, environment)
      const send = sender(running)
      t.equal((await send('PUT', '/a%20letter.fodt', {}, letter)).status, 201)
      const locks = async () =>
        (await send('PROPFIND', '/a%20letter.fodt', { depth: '0' }, propfind('<D:lockdiscovery/>'))).body
      const address = `vnd.sun.star.webdav://${new URL(running.davUrl).host}/dav/a%20letter.fodt`
      const env = { ...environment, DAV_USER: 'admin', DAV_PASSWORD: running.adminPassword }
      const child = spawn(python, [script, pipe, address, 'high water'], { cwd: folder, env })
      t.teardown(() => child.kill())
      const office = conversation(child)
      t.equal(await office.next(), 'opened: low water')
      const [owner] = texts(await locks(), 'owner')
      t.match(owner, /LibreOffice/)
      t.equal((await send('PUT', '/a%20letter.fodt', {}, 'somebody else')).status, 423)
      office.go()
      t.equal(await office.next(), 'stored')
      t.match((await send('GET', '/a%20letter.fodt')).body, /high water/)
      t.same(texts(await locks(), 'owner').length, 1, 'still open')
      office.go()
      t.equal(await office.next(), 'closed')
      t.same(texts(await locks(), 'owner'), [])
      office.go()
      t.equal(await office.next(), 'opened: high water')
    })
  }
})
