/** Crypt reads files that rclone wrote and the reverse, with every combination of name options. */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { cryptFields, cryptType } from '../../../drivers/crypt/index.js'
import { obscure } from '../../../drivers/crypt/passwords.js'
import { asPath, parentOf } from '../../../src/base/path.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { at, bytesAt, listed, put, type WritableDriver } from '../../driver-conformance/subject.js'
import { findProgram, lacks } from '../../programs.js'
import { compositeTree, onDisk } from '../composite-tree.js'

const run = promisify(execFile)
const rclone = findProgram('rclone') ?? 'rclone'

/** Content by path. */
const files: Readonly<Record<string, Buffer>> = {
  '/plain.txt': Buffer.from('hello'),
  '/empty': Buffer.alloc(0),
  '/with space.and.dots...tar.gz': randomBytes(65_536),
  '/ leading and trailing ': randomBytes(65_537),
  '/.hidden': randomBytes(65_535),
  '/emoji 🦀🌊.png': randomBytes(131_072),
  '/你好 世界.mp4': randomBytes(300_000),
  '/Ünïcödé! & (more) #1 100%.bin': Buffer.from('x'),
  '/!bang!.txt': Buffer.from('!'),
  '/old-v2001-02-03-040506-123.txt': Buffer.from('an old version'),
  '/no-time-v2001-13-03-040506-123.txt': Buffer.from('no version'),
  '/folder.d/sub folder 🦀/deep.txt': randomBytes(1000),
  '/folder.d/0123456789abcdef': randomBytes(16),
  [`/${'long'.repeat(16)}`]: Buffer.from('long'),
}

interface Row {
  readonly names: string
  readonly folders: string
  readonly encoding: string
}
const rows: readonly Row[] = [
  { names: 'off', folders: 'false', encoding: 'base64' },
  { names: 'obfuscate', folders: 'true', encoding: 'base64' },
  { names: 'obfuscate', folders: 'false', encoding: 'base64' },
  { names: 'standard', folders: 'false', encoding: 'base64' },
  ...['base32', 'base64', 'base32768'].map((encoding) => ({ names: 'standard', folders: 'true', encoding })),
]

for (const { names, folders, encoding } of rows) {
  const title = `rclone and Crypt read each other: names ${names}, folders ${folders}, ${encoding}`
  await t.test(title, { skip: lacks('rclone') }, async (t) => {
    const disk = onDisk(t)
    const { env } = await compositeTree(t, { '/store': disk.ask })
    const scratch = await mkdtemp(join(tmpdir(), 'tidegate-rclone-'))
    t.teardown(() => rm(scratch, { recursive: true, force: true }))
    const config = join(scratch, 'rclone.conf')
    const secrets = [`password = ${obscure('pässword')}`, `password2 = ${obscure('salt & more')}`]
    const choices = [
      `filename_encryption = ${names}`,
      `directory_name_encryption = ${folders}`,
      `filename_encoding = ${encoding}`,
    ]
    await writeFile(config, ['[enc]', 'type = crypt', `remote = ${disk.folder}`, ...secrets, ...choices, ''].join('\n'))
    const call = async (...args: string[]) => {
      const { stdout } = await run(rclone, ['--config', config, ...args])
      return stdout
    }
    const driver = (await cryptType.open(
      checkOptions(cryptFields, {
        remote_path: '/store',
        filename_encryption: names,
        directory_name_encryption: folders,
        filename_encoding: encoding,
        encrypted_suffix: '.bin',
        password: `___Obfuscated___${obscure('pässword')}`,
        salt: 'salt & more',
      }),
      env,
    )) as WritableDriver

    const theirs = join(scratch, 'theirs')
    for (const [path, bytes] of Object.entries(files)) {
      await mkdir(dirname(theirs + path), { recursive: true })
      await writeFile(theirs + path, bytes)
    }
    await call('copy', theirs, 'enc:theirs')
    for (const [path, bytes] of Object.entries(files)) {
      t.ok((await bytesAt(driver, `/theirs${path}`)).equals(bytes), `rclone wrote ${path}`)
      const { name, size } = await driver.stat(at(`/theirs${path}`))
      t.same({ name, size }, { name: path.slice(path.lastIndexOf('/') + 1), size: bytes.length })
    }
    const expected = Object.keys(files)
      .filter((path) => !path.includes('/', 1))
      .map((path) => path.slice(1))
    t.same(
      (await listed(driver, '/theirs')).map(({ name }) => name),
      [...expected, 'folder.d'].sort(),
    )

    await driver.mkdir(at('/ours'))
    for (const [path, bytes] of Object.entries(files)) {
      const parent = asPath(`/ours${parentOf(asPath(path)) === '/' ? '' : parentOf(asPath(path))}`)
      for (let end = parent.indexOf('/', 1); end > 0; end = parent.indexOf('/', end + 1)) {
        await driver.mkdir(asPath(parent.slice(0, end))).catch(() => undefined)
      }
      await driver.mkdir(parent).catch(() => undefined)
      await put(driver, `/ours${path}`, bytes)
    }
    const back = join(scratch, 'back')
    await call('copy', 'enc:ours', back)
    for (const [path, bytes] of Object.entries(files)) {
      t.ok((await readFile(back + path)).equals(bytes), `rclone read ${path}`)
    }
    await call('check', '--download', theirs, 'enc:ours')
    t.pass('rclone finds no difference')
  })
}
