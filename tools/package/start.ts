/** Starts a packaged program as its user would: without another Node.js, and with its native modules. */
import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isForeign, type Architecture } from './architectures.js'
import { addresses, ready, stop, useThumbnails } from './daemon.js'
import { run } from './run.js'

/** Native modules that have a slower replacement, which would be used without a word. */
const nativeParts = ['sqlite3', 'ssh2', 'sodium-native']

/**
 * Rejects unless the program in the folder becomes ready, answers, uses its native modules, makes a thumbnail (which an
 * emulated one cannot: it starts its own Node.js), and stops with the status 0.
 */
export async function assertStarts(root: string, architecture: Architecture): Promise<void> {
  const main = join(root, 'dist', 'src', 'main.js')
  const emulated = [
    architecture.emulator,
    '-L',
    `/usr/${architecture.toolPrefix.slice(0, -1)}`,
    join(root, 'bin', 'node'),
    main,
  ]
  const [program = '', ...words] = isForeign(architecture) ? emulated : [join(root, 'bin', 'tidegate')]
  const data = await mkdtemp(join(tmpdir(), 'tidegate-started-'))
  const flags = ['--data', data, ...addresses]
  const environment = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' }
  const daemon = spawn(program, [...words, 'serve', ...flags], {
    env: environment,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const isReady = await ready(daemon)
    const { url } = isReady
    const { status } = await fetch(`${url}/readyz`)
    if (status !== 200) throw new Error(`/readyz has the status ${status}`)
    const report = await run(program, [...words, 'doctor', '--json', ...flags], { environment }).catch(
      (error: unknown) => {
        throw new Error('the doctor of the packaged program found a fault', { cause: error })
      },
    )
    const findings = JSON.parse(report) as readonly { readonly what: string; readonly ok: boolean | null }[]
    for (const part of nativeParts) {
      if (findings.find(({ what }) => what === part)?.ok !== true)
        throw new Error(`the native part of ${part} is not used`)
    }
    if (!isForeign(architecture)) await useThumbnails(isReady)
    await stop(daemon)
  } finally {
    daemon.kill('SIGKILL')
    await rm(data, { recursive: true })
  }
}
