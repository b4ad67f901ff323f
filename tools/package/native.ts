/** The production dependencies and Node.js of an architecture, with the native modules compiled for it. */
import { copyFile, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { isForeign, type Architecture } from './architectures.js'
import { run } from './run.js'

/** The version of Node.js in the packages. */
export const nodeVersion = '24.21.0'

/** Compiled with the headers of that version; the others bring binaries for every version. */
const compiled = ['sqlite3', 'ssh2', 'cpu-features']

export interface Program {
  /** The folder with `package.json` and `node_modules`. Its name is in the bill of materials. */
  readonly folder: string
  /** The folder of the npm package of Node.js, with `bin` and `include`. */
  readonly node: string
}

/** Installs everything into folders below `work`, which must be empty. Takes minutes: SQLite is compiled. */
export async function installProgram(architecture: Architecture, work: string): Promise<Program> {
  const { name } = architecture
  const node = await installNode(name, work)
  // npm runs with that version too, which is then what node-gyp compiles for.
  const runner = isForeign(architecture) ? await installNode(process.arch, work) : node
  const folder = join(work, 'tidegate')
  await mkdir(folder)
  for (const file of ['package.json', 'package-lock.json']) await copyFile(file, join(folder, file))
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error']
  const platform = ['--os=linux', `--cpu=${name}`, '--libc=glibc']
  await run('npm', ['ci', '--omit=dev', '--ignore-scripts', ...platform, ...quiet], { folder })
  await removeDevelopment(join(folder, 'package.json'))
  const { toolPrefix } = architecture
  const tools = { CC: `${toolPrefix}gcc`, CXX: `${toolPrefix}g++`, AR: `${toolPrefix}ar`, LINK: `${toolPrefix}g++` }
  await run('npm', ['rebuild', ...compiled, ...quiet], {
    folder,
    environment: {
      ...(isForeign(architecture) && tools),
      PATH: `${resolve(runner, 'bin')}:${process.env.PATH ?? ''}`,
      npm_config_nodedir: resolve(node),
      npm_config_arch: name,
      npm_config_build_from_source: 'true',
      // Warnings in these modules are for those who maintain them.
      CFLAGS: '-w',
      CXXFLAGS: '-w',
    },
  })
  return { folder, node }
}

/** Removes what is for development: npm would report its packages as missing. */
async function removeDevelopment(file: string): Promise<void> {
  const {
    devDependencies: _packages,
    scripts: _scripts,
    ...rest
  } = JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>
  await writeFile(file, `${JSON.stringify(rest, null, 2)}\n`)
}

async function installNode(architecture: string, work: string): Promise<string> {
  const prefix = join(work, `node-${architecture}`)
  const name = `node-linux-${architecture}`
  const platform = ['--force', '--ignore-scripts', '--no-save', '--no-audit', '--no-fund', '--loglevel=error']
  await run('npm', ['install', ...platform, '--prefix', prefix, `${name}@${nodeVersion}`])
  return join(prefix, 'node_modules', name)
}

/** Needed to compile others, and by nothing that runs. */
const buildTools = ['node-gyp', 'prebuild-install', 'node-addon-api', 'nan', 'buildcheck', 'tar', '@types', '.bin']
/** Folders of a package that its program does not load; those of the compiled ones have sources too. */
const unusedFolders = ['test', 'tests', '__tests__', 'example', 'examples', 'benchmark', 'benchmarks', '.github']
const sourceFolders = ['deps', 'src', 'examples']
const unusedFiles =
  /\.(?:map|[cm]?ts|c|cc|cpp|h|hpp|gyp|gypi|md|markdown|flow|yml|o|a|d|mk|tgz|gz|bare|html)$|^(?:Makefile|binding\.Makefile)$/i
const legalFiles = /^(?:licen[cs]e|copying|notice|copyright)/i

/** Removes from `node_modules` what no start loads: sources, headers, types, tests, binaries for other systems. */
export async function prune(modules: string, { name }: Architecture): Promise<void> {
  for (const each of buildTools) await rm(join(modules, each), { recursive: true, force: true })
  for (const each of await packagesOf(modules)) {
    const folder = join(modules, each)
    const unused = compiled.includes(each) ? [...unusedFolders, ...sourceFolders] : unusedFolders
    for (const name of unused) await rm(join(folder, name), { recursive: true, force: true })
    const prebuilds = join(folder, 'prebuilds')
    for (const entry of await readdir(prebuilds).catch(() => [])) {
      if (entry !== `linux-${name}`) await rm(join(prebuilds, entry), { recursive: true })
    }
    await removeFiles(folder)
  }
}

async function packagesOf(modules: string): Promise<readonly string[]> {
  const names = await readdir(modules)
  const scoped = names.filter((name) => name.startsWith('@'))
  const below = await Promise.all(
    scoped.map(async (scope) => (await readdir(join(modules, scope))).map((name) => join(scope, name))),
  )
  return [...names.filter((name) => !name.startsWith('@') && !name.startsWith('.')), ...below.flat()]
}

async function removeFiles(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) {
      // What a compiler leaves beside the module that it has made.
      if (['obj.target', '.deps', 'obj'].includes(entry.name)) await rm(path, { recursive: true })
      else await removeFiles(path)
    } else if ((unusedFiles.test(entry.name) || entry.name.startsWith('.')) && !legalFiles.test(entry.name))
      await rm(path)
  }
  if ((await readdir(folder)).length === 0) await rm(folder, { recursive: true })
}
