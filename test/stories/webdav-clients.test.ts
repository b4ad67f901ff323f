/** WebDAV client programs: their usual operations succeed. */
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { startGateway, type RunningGateway } from '../gateway.js'
import { lacks } from '../programs.js'

const run = promisify(execFile)

async function temporaryFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-webdav-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Runs cadaver with these input lines. Resolves to its output. */
function cadaver(home: string, running: RunningGateway, lines: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn('cadaver', [running.davUrl], { cwd: home, env: { ...process.env, HOME: home } })
    let said = ''
    child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
    child.on('error', reject)
    child.on('close', () => resolve(said))
    child.stdin.end(`${lines.join('\n')}\nquit\n`)
  })
}

void t.test('cadaver', { skip: lacks('cadaver') }, async (t) => {
  for (const driver of ['Local', 'Memory']) {
    await t.test(`over ${driver}`, async (t) => {
      const running = await startGateway(t, driver === 'Local' ? {} : { driver: { name: driver } })
      const home = await temporaryFolder(t)
      const netrc = `machine 127.0.0.1\nlogin admin\npassword "${running.adminPassword}"\n`
      await writeFile(join(home, '.netrc'), netrc, { mode: 0o600 })
      await writeFile(join(home, 'spring.txt'), 'high water\n')
      const said = await cadaver(home, running, [
        ...['mkcol tides', 'cd tides', 'put spring.txt', 'ls'],
        ...['copy spring.txt neap.txt', 'move neap.txt ebb.txt', 'ls'],
        ...['propset ebb.txt height 3.2', 'propget ebb.txt height', 'propnames ebb.txt'],
        ...['lock spring.txt', 'discover spring.txt', 'unlock spring.txt', 'showlocks'],
        ...['get ebb.txt back.txt', 'cat spring.txt', 'delete spring.txt', 'mkcol below', 'rmcol below', 'ls', 'cd ..'],
        ...['rmcol tides', 'ls'],
      ])
      t.notMatch(said, /failed|error|Unauthorized/i, said)
      t.match(said, /Value of height is: 3\.2/)
      t.match(said, /collection is empty/i)
      t.equal(await readFile(join(home, 'back.txt'), 'utf8'), 'high water\n')
    })
  }
})

void t.test('rclone syncs both ways and preserves times, and a second sync transfers nothing', async (t) => {
  const tree = '/usr/share/doc'
  const sample = ['--include', '/[a-c]*/**', '--max-size', '1M', '--skip-links']
  const version = Number(/v1\.(\d+)/.exec((await run('rclone', ['version'])).stdout)?.[1])
  for (const vendor of ['owncloud', 'nextcloud', 'other']) {
    const skip = vendor === 'nextcloud' && version >= 63 && 'since 1.63 rclone asks for what only Nextcloud has'
    await t.test(vendor, { skip }, async (t) => {
      const running = await startGateway(t)
      const folder = await temporaryFolder(t)
      const config = join(folder, 'rclone.conf')
      const { stdout: obscured } = await run('rclone', ['obscure', running.adminPassword])
      const remote = `type = webdav\nurl = ${running.davUrl}\nvendor = ${vendor}\nuser = admin\npass = ${obscured.trim()}\n`
      await writeFile(config, `[dav]\n${remote}`)
      const sync = async (from: string, to: string, ...words: readonly string[]): Promise<string> => {
        const options = ['--config', config, '--retries', '1', '--transfers', '8', '-v']
        return (await run('rclone', [...options, 'sync', from, to, ...words], { maxBuffer: 1 << 26 })).stderr
      }
      t.notMatch(await sync(tree, 'dav:/docs', ...sample), /nothing to transfer/)
      t.match(await sync(tree, 'dav:/docs', ...sample), /nothing to transfer/, 'a second upload')
      const back = join(folder, 'back')
      await sync('dav:/docs', back)
      t.match(await sync('dav:/docs', back), /nothing to transfer/, 'a second download')
      if (vendor !== 'other')
        t.match(await sync(back, tree, ...sample, '--dry-run'), /nothing to transfer/, 'the same times')
      await writeFile(join(back, 'added'), 'one more\n')
      t.match(await sync(back, 'dav:/docs'), /added: Copied/)
      t.match(await sync(back, 'dav:/docs'), /nothing to transfer/)
      await rm(join(back, 'added'))
      t.match(await sync(back, 'dav:/docs'), /added: Deleted/)
    })
  }
})
