/** Builds another commit of Tidegate. Relies on two names only: `npm run build` and `dist/src/main.js`. */
import { existsSync } from 'node:fs'
import { cp, readFile, symlink } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from './programs.js'

interface Build {
  readonly title: string
  /** The main file of the program. */
  readonly main: string
}

/** The folder of this checkout. */
export const root = fileURLToPath(new URL('../..', import.meta.url))
const program = join('dist', 'src', 'main.js')

/**
 * Builds a commit in a worktree at `folder`, which must not exist. Passes a function that removes it to `onEnd`. Uses
 * the packages of this checkout; where the lock files differ, a copy with those of the commit. `commit` may also be the
 * folder of a checkout that is already built.
 */
export async function build(
  commit: string,
  folder: string,
  say: (line: string) => void,
  onEnd: (remove: () => Promise<unknown>) => void,
): Promise<Build> {
  const built = resolve(commit, program)
  if (existsSync(built)) return { title: commit, main: built }
  const git = (...words: readonly string[]) => run('git', ['-C', root, ...words])
  const hash = (await git('rev-parse', '--verify', '--end-of-options', `${commit}^{commit}`)).trim()
  const title = `${commit} (${hash.slice(0, 10)})`
  onEnd(() => git('worktree', 'remove', '--force', folder))
  await git('worktree', 'add', '--quiet', '--detach', folder, hash)
  const lock = (checkout: string) => readFile(join(checkout, 'package-lock.json'), 'utf8')
  const packages = [join(root, 'node_modules'), join(folder, 'node_modules')] as const
  if ((await lock(root)) === (await lock(folder))) {
    await symlink(...packages)
  } else {
    say(`${title}: package-lock.json differs, its packages are installed`)
    // Most are the same, and need not be downloaded and compiled again.
    await cp(...packages, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true })
    await run('npm', ['install', '--no-save', '--no-audit', '--no-fund', '--prefix', folder], { minutes: 20 })
  }
  say(`${title} is built`)
  await run('npm', ['run', '--silent', 'build', '--prefix', folder], { minutes: 20 })
  return { title, main: join(folder, program) }
}
