/** The commands of README.md, from its text, as a new user runs them. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { startDaemon } from '../gateway.js'
import { lacks } from '../programs.js'

const run = promisify(execFile)

const needs = lacks('curl', 'rclone', 'fusermount3') || (!existsSync('/dev/fuse') && 'this machine has no FUSE')

/** The shell commands below a heading: those of each block, with what their last comment says that they print. */
async function blocksBelow(
  heading: string,
): Promise<readonly { readonly commands: string; readonly printed: string }[]> {
  const readme = await readFile('README.md', 'utf8')
  const [, section = ''] = new RegExp(`^## ${heading}\\n(.*?)^## `, 'ms').exec(readme) ?? []
  return Array.from(section.matchAll(/^```sh\n(.*?)^```$/gms), ([, text = '']) => {
    const lines = text.split('\n')
    const printed = lines.filter((line) => line.startsWith('# ')).map((line) => line.slice(2))
    return { commands: lines.filter((line) => !line.startsWith('# ')).join('\n'), printed: printed.join('\n') }
  })
}

void t.test(
  'the first three minutes: a file is uploaded, downloaded, and written through a mount',
  { skip: needs },
  async (t) => {
    const home = t.testdir()
    const blocks = await blocksBelow('The first three minutes')
    const readme = await readFile('README.md', 'utf8')
    const [, password = ''] = /with the password (\S+)/.exec(readme) ?? []
    t.equal(blocks.length, 2)
    const daemon = await startDaemon(t, { adminPassword: password })
    const port = new URL(daemon.url).port
    const environment = {
      ...process.env,
      HOME: home,
      XDG_CONFIG_HOME: join(home, 'config'),
      XDG_CACHE_HOME: join(home, 'cache'),
    }
    const begun = performance.now()
    for (const { commands, printed } of blocks) {
      const here = commands.replaceAll('localhost:5244', `127.0.0.1:${port}`)
      t.not(here, commands, 'they name the port')
      // Each block is typed into the same shell: the first one sets the password.
      const script = `PASSWORD=${password}\n${here}`
      const { stdout } = await run('bash', ['-ec', script], { cwd: home, env: environment, timeout: 60_000 })
      if (printed !== '') t.match(stdout, printed)
    }
    t.comment(`${((performance.now() - begun) / 1000).toFixed(1)} s`)
    // fusermount returns while rclone still uploads.
    const stored = join(daemon.dataFolder, 'files', 'neap.txt')
    const isStored = async () => (await readFile(stored, 'utf8').catch(() => '')) === 'neap\n'
    for (const end = performance.now() + 60_000; !(await isStored()) && performance.now() < end;)
      await new Promise((resolve) => setTimeout(resolve, 50))
    t.ok(await isStored(), 'what was written to the mount is stored')
    t.equal(await readFile(join(daemon.dataFolder, 'files', 'tide.txt'), 'utf8'), 'high tide at noon\n')
  },
)

void t.test('the daemon and its console are built from what a clone has', { skip: lacks('git', 'npm') }, async (t) => {
  const clone = t.testdir()
  await run('git', ['checkout-index', '--all', `--prefix=${clone}/`])
  await symlink(resolve('node_modules'), join(clone, 'node_modules'))
  // The types were checked when this test was built.
  const config = join(clone, 'tsconfig.build.json')
  const { compilerOptions, ...rest } = JSON.parse(await readFile(config, 'utf8')) as { compilerOptions: object }
  await writeFile(config, JSON.stringify({ ...rest, compilerOptions: { ...compilerOptions, noCheck: true } }))
  await run('npm', ['run', '--silent', 'build'], { cwd: clone, timeout: 600_000 })
  t.ok(existsSync(join(clone, 'dist/web/index.html')))
  const { stdout } = await run(process.execPath, ['dist/src/main.js', '--version'], { cwd: clone })
  t.match(stdout, /\d/)
  // The parts that are imported when the daemon starts.
  const parts = ['src/process/daemon', 'protocols/http/server', 'protocols/sftp/server', 'protocols/webdav/server']
  const imports = parts.map((part) => `await import('./dist/${part}.js')`).join('\n')
  await run(process.execPath, ['--input-type=module', '--eval', `${imports}\nprocess.exit()`], { cwd: clone })
})
