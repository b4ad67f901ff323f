/**
 * ZIP archives: what programs read from them, the largest sizes and numbers, and content that is not what was
 * announced.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, open, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { zipArchive, type ZipMember } from '../../../../protocols/http/files/zip-format.js'
import { lacks, onlyWithVariants } from '../../../programs.js'
import { readArchive, zipPrograms } from './zip-programs.js'

const run = promisify(execFile)
const mebibyte = 1024 * 1024
const skip = lacks(...zipPrograms)
const modified = new Date('2024-05-17T16:05:36.465Z')

async function* pieces(...bytes: readonly Buffer[]): AsyncGenerator<Buffer> {
  yield* bytes
}

function file(name: string, content: Buffer, facts: Partial<ZipMember> = {}): ZipMember {
  const bytes = pieces(content.subarray(0, 10), content.subarray(10))
  return { name, modified, mode: 0o644, content: { size: content.length, bytes }, ...facts }
}

function folder(name: string, facts: Partial<ZipMember> = {}): ZipMember {
  return { name, modified, mode: 0o755, ...facts }
}

async function* all(members: Iterable<ZipMember>): AsyncGenerator<ZipMember> {
  yield* members
}

const free = () => undefined

void t.test('programs read names, content, times and modes', { skip }, async (t) => {
  const at = join(t.testdir(), 'a.zip')
  const random = randomBytes(3 * mebibyte)
  const members = [
    folder('Ordner'),
    folder('Ordner/leer', { mode: 0o700 }),
    file('Ordner/ä ö ü.bin', random),
    file('世界/😀.txt', Buffer.from('hello'), { mode: 0o755 }),
    file('empty', Buffer.alloc(0)),
    file('old', Buffer.from('x'), { modified: new Date(0) }),
    file('older', Buffer.from('x'), { modified: new Date('1969-12-31T00:00:00Z') }),
    file('late', Buffer.from('x'), { modified: new Date('2107-12-31T23:59:59Z') }),
    file('later', Buffer.from('x'), { modified: new Date('2200-01-01T00:00:00Z') }),
    file('never', Buffer.from('x'), { modified: new Date(NaN) }),
    file('-rf', Buffer.from('x')),
    file('x'.repeat(255), Buffer.from('x')),
  ]
  await pipeline(zipArchive(all(members), free), createWriteStream(at))
  const listed = await readArchive(at)
  t.same(
    listed.map(({ name }) => name),
    members.map(({ name, content }) => (content ? name : `${name}/`)),
  )
  const times = Object.fromEntries(listed.map(({ name, time }) => [name, time.join(' ')]))
  t.equal(times['Ordner/'], '2024 5 17 16 5 36')
  t.equal(times.old, '1980 1 1 0 0 0')
  t.equal(times.older, '1980 1 1 0 0 0')
  t.equal(times.never, '1980 1 1 0 0 0')
  t.equal(times.late, '2107 12 31 23 59 58')
  t.equal(times.later, '2107 12 31 23 59 58')
  const modes = Object.fromEntries(listed.map(({ name, mode }) => [name, mode.toString(8)]))
  t.match(modes, { 'Ordner/': '40755', 'Ordner/leer/': '40700', empty: '100644', '世界/😀.txt': '100755' })

  for (const [program, words] of [
    ['unzip', ['-q', at]],
    ['bsdtar', ['-xf', at]],
  ] as const) {
    const into = join(t.testdirName, program)
    await mkdir(into)
    await run(program, words, { cwd: into, env: { ...process.env, LC_ALL: 'C.UTF-8', TZ: 'Asia/Tokyo' } })
    t.ok((await readFile(join(into, 'Ordner/ä ö ü.bin'))).equals(random), program)
    t.same(await readdir(join(into, 'Ordner/leer')), [])
    t.equal((await stat(join(into, '世界/😀.txt'))).mode & 0o777, 0o755, program)
    t.equal((await stat(join(into, 'empty'))).mtime.toISOString(), '2024-05-17T16:05:36.000Z', 'of any time zone')
  }
})

void t.test('an archive without members is one', { skip }, async (t) => {
  const at = join(t.testdir(), 'a.zip')
  await pipeline(zipArchive(all([]), free), createWriteStream(at))
  t.equal((await stat(at)).size, 22)
  const { stdout } = await run('python3', [
    '-c',
    'import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).namelist())',
    at,
  ])
  t.equal(stdout.trim(), '[]')
})

void t.test('an archive has more than 65,535 members', { skip }, async (t) => {
  for (const count of onlyWithVariants === false ? [65_534, 65_535, 66_000] : [65_535]) {
    const at = join(t.testdir(), `${count}.zip`)
    const members = function* () {
      for (let number = 0; number < count; number++)
        yield number % 2 ? folder(`${number}`) : file(`${number}`, Buffer.of(1))
    }
    await pipeline(zipArchive(all(members()), free), createWriteStream(at))
    t.equal((await readArchive(at)).length, count)
  }
})

void t.test(
  'a member has more than 4 GiB, and others follow it',
  { skip: skip || onlyWithVariants, timeout: 600_000 },
  async (t) => {
    const at = join(t.testdir(), 'a.zip')
    const zeros = Buffer.alloc(mebibyte)
    const chunks = async function* () {
      for (let number = 0; number < 4096; number++) yield zeros
      yield Buffer.from('end')
    }
    const size = 4096 * mebibyte + 3
    const below = 2 ** 32 - 2
    const members = [
      file('before', Buffer.from('before')),
      { name: 'large', modified, mode: 0o600, content: { size, bytes: chunks() } },
      file('after', Buffer.from('after')),
      folder('folder'),
    ]
    // A sparse file.
    const handle = await open(at, 'w')
    let position = 0
    for await (const bytes of zipArchive(all(members), free)) {
      if (!bytes.equals(zeros)) await handle.write(bytes, 0, bytes.length, position)
      position += bytes.length
    }
    await handle.truncate(position)
    await handle.close()
    t.ok(position > below)
    t.same(
      (await readArchive(at, 'unzip')).map(({ name, size: bytes }) => [name, bytes]),
      [
        ['before', 6],
        ['large', size],
        ['after', 5],
        ['folder/', 0],
      ],
    )
  },
)

void t.test('content of another length than announced ends the archive', async (t) => {
  const wrong = (size: number) => ({
    ...file('x', Buffer.alloc(0)),
    content: { size, bytes: pieces(Buffer.alloc(100)) },
  })
  for (const size of [0, 99, 101, 2 ** 33]) {
    const reading = async () => {
      for await (const _bytes of zipArchive(all([wrong(size)]), free));
    }
    await t.rejects(reading(), { code: 'aborted', reason: 'a file has changed while it was sent' }, String(size))
  }
})

void t.test('the members are closed when the archive is not read to its end', async (t) => {
  let closed = 0
  const members = async function* () {
    try {
      for (let number = 0; ; number++) yield file(String(number), randomBytes(mebibyte))
    } finally {
      closed++
    }
  }
  const archive = zipArchive(members(), free)
  await archive.next()
  await archive.return(undefined)
  t.equal(closed, 1)
  let left = 1000
  const limited = async () => {
    const reserve = (bytes: number) => {
      left -= bytes
      if (left < 0) throw new Error('too much')
    }
    for await (const _bytes of zipArchive(members(), reserve));
  }
  await t.rejects(limited(), { message: 'too much' })
  t.equal(closed, 2)
})
