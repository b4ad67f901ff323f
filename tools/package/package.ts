/**
 * `npm run package -- [--arch x64|arm64|all] [--out DIR]`: makes the packages of the built program, with their sums and
 * bills of materials. Everything is packaged twice, and must be equal byte for byte. Files have the time in
 * SOURCE_DATE_EPOCH, else that of the commit.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, mkdtemp, readFile, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import { protocols } from '../../protocols/index.js'
import { createProgram } from '../../src/cli/program.js'
import { configFileSchema } from '../../src/installation/config.js'
import { architectures, type Architecture } from './architectures.js'
import { normalize, writeArchive } from './archive.js'
import { billOfMaterials } from './bill-of-materials.js'
import { libcOf } from './binaries.js'
import { commandNodes } from './command-tree.js'
import { completions } from './completions.js'
import { writeDebianPackage } from './debian.js'
import { manualPages } from './manual.js'
import { installProgram, type Program } from './native.js'
import { run } from './run.js'
import { assertStarts } from './start.js'
import { writeTree } from './tree.js'

/** Bytes of an archive, and of its content. */
const limits = { packed: 80_000_000, unpacked: 250_000_000 }

interface Made {
  readonly version: string
  readonly time: number
}

/** Completions and manual pages, by their path in a system. */
function generatedFiles({ version, time }: Made): ReadonlyMap<string, string> {
  const nodes = commandNodes(createProgram())
  const date = new Date(time * 1000).toISOString().slice(0, 10)
  return new Map([...completions(nodes), ...manualPages(nodes, configFileSchema(protocols), { version, date })])
}

/** Writes the packages of the program, and the folders that they are made from, to the folder, which must be empty. */
async function writePackages(folder: string, program: Program, architecture: Architecture, made: Made): Promise<void> {
  const { version, time } = made
  const name = `tidegate-${version}-linux-${architecture.name}`
  const tree = join(folder, name)
  await writeTree(tree, program, architecture)
  await normalize(tree, time)
  await writeArchive(join(folder, `${name}.tar.gz`), tree)
  const file = join(folder, `tidegate_${version}_${architecture.debian}.deb`)
  const generated = generatedFiles(made)
  const libc = await libcOf(tree, architecture)
  await writeDebianPackage(file, join(folder, 'debian'), { architecture, tree, generated, version, time, libc })
  await writeFile(join(folder, `${name}.cdx.json`), await billOfMaterials(program, time))
}

async function packagesIn(folder: string): Promise<readonly string[]> {
  return (await readdir(folder)).filter((name) => /\.(?:tar\.gz|deb|cdx\.json)$/.test(name)).sort()
}

async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}

async function assertSmall(folder: string, version: string, { name }: Architecture): Promise<void> {
  const tree = join(folder, `tidegate-${version}-linux-${name}`)
  const packed = (await stat(`${tree}.tar.gz`)).size
  const unpacked = Number((await run('du', ['-sb', tree])).split('\t')[0])
  console.log(`${name}: ${megabytes(packed)} packed, ${megabytes(unpacked)} unpacked`)
  if (packed > limits.packed || unpacked > limits.unpacked) {
    throw new Error(`the limits are ${megabytes(limits.packed)} and ${megabytes(limits.unpacked)}`)
  }
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`
}

/** Makes the packages of an architecture in `out`, from a program that is installed. */
async function makePackages(out: string, program: Program, architecture: Architecture, made: Made): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), 'tidegate-packages-'))
  try {
    const [first, second] = [join(work, 'first'), join(work, 'second')]
    const write = async (folder: string) => {
      await mkdir(folder)
      await writePackages(folder, program, architecture, made)
    }
    await Promise.all([write(first), write(second)])
    for (const name of await packagesIn(first)) {
      if ((await sha256Of(join(first, name))) !== (await sha256Of(join(second, name)))) {
        throw new Error(`${name} differs from the same packaged again`)
      }
    }
    await assertSmall(first, made.version, architecture)
    await assertStarts(join(first, `tidegate-${made.version}-linux-${architecture.name}`), architecture)
    await mkdir(out, { recursive: true })
    for (const name of await packagesIn(first)) {
      // Another file system may hold the temporary folder.
      await run('cp', ['--no-preserve=ownership', join(first, name), join(out, `${name}.new`)])
      await rename(join(out, `${name}.new`), join(out, name))
    }
  } finally {
    await rm(work, { recursive: true })
  }
}

async function writeSums(out: string): Promise<void> {
  const lines = await Promise.all(
    (await packagesIn(out)).map(async (name) => `${await sha256Of(join(out, name))}  ${name}\n`),
  )
  await writeFile(join(out, 'SHA256SUMS'), lines.join(''))
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { arch: { type: 'string', default: process.arch }, out: { type: 'string', default: 'build' } },
  })
  const chosen = architectures.filter(({ name }) => values.arch === 'all' || values.arch === name)
  if (chosen.length === 0)
    throw new Error(`there are packages for ${architectures.map(({ name }) => name).join(' and ')}`)
  const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { readonly version: string }
  const time = Number(process.env.SOURCE_DATE_EPOCH ?? (await run('git', ['log', '-1', '--format=%ct'])))
  const out = resolve(values.out)
  for (const architecture of chosen) {
    const work = await mkdtemp(join(tmpdir(), 'tidegate-program-'))
    try {
      const program = await installProgram(architecture, work)
      await makePackages(out, program, architecture, { version, time })
    } finally {
      await rm(work, { recursive: true })
    }
  }
  await writeSums(out)
  console.log(await readFile(join(out, 'SHA256SUMS'), 'utf8'))
}

await main()
