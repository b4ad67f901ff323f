/**
 * Crypt passes the conformance suite, encrypts content and names as rclone does, and reports wrong passwords and
 * damaged files.
 */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { ContentEncryption, encryptedSize, plainSize } from '../../../drivers/crypt/content.js'
import { cryptFields, cryptType, type CryptOptions } from '../../../drivers/crypt/index.js'
import { namesOf } from '../../../drivers/crypt/names.js'
import { keysOf, obscure, passwordOf, reveal } from '../../../drivers/crypt/passwords.js'
import { wasmSecretBox, nativeSecretBox } from '../../../drivers/crypt/sodium.js'
import type { DriverEnv } from '../../../src/contract/driver-env.js'
import { asPath } from '../../../src/base/path.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { conformance } from '../../driver-conformance/driver.js'
import {
  at,
  bytesAt,
  listed,
  namesIn,
  put,
  refuses,
  textAt,
  type WritableDriver,
} from '../../driver-conformance/subject.js'
import { onlyWithVariants } from '../../programs.js'
import { newGuardedDriver } from '../../storage/new-guarded-driver.js'
import { compositeTree, onDisk } from '../composite-tree.js'

const store = asPath('/store')

async function openOver(env: DriverEnv, path: string, options: Partial<CryptOptions> = {}): Promise<WritableDriver> {
  const given = { remote_path: path, password: 'potato', salt: 'sausage', ...options }
  return (await cryptType.open(checkOptions(cryptFields, given), env)) as WritableDriver
}

const everything = { filename_encryption: 'standard', directory_name_encryption: 'true' }

for (const [name, options, skip] of [
  ['Crypt with clear names over Memory', {}, onlyWithVariants],
  ['Crypt over Memory', everything, onlyWithVariants],
  ['Crypt with clear folders over Memory', { filename_encryption: 'standard', filename_encoding: 'base32768' }, false],
  ['Crypt with obfuscated names over Memory', { ...everything, filename_encryption: 'obfuscate' }, false],
] as const) {
  await t.test(`${name} passes the conformance suite`, { skip }, async (t) => {
    const { env, newFolder } = await compositeTree(t, { '/store': {} })
    await conformance(t, {
      type: cryptType,
      many: 1000,
      open: async () => ({
        driver: await openOver(env, await newFolder(store), options),
        dispose: async () => undefined,
      }),
    })
  })
}

await t.test('Crypt over Local passes the conformance suite', async (t) => {
  const { env, newFolder } = await compositeTree(t, { '/store': onDisk(t).ask })
  await conformance(t, {
    type: cryptType,
    many: 2000,
    longestName: 143,
    open: async () => ({
      driver: await openOver(env, await newFolder(store), { ...everything, filename_encoding: 'base32' }),
      dispose: async () => undefined,
    }),
  })
})

await t.test('Crypt derives the same keys and names as rclone', async (t) => {
  const keys = await keysOf('potato', 'sausage')
  t.equal(keys.data.toString('hex'), '8e9b6b99f8690467a071f9cb92d0aa787f8ff178bec96f999fd5206e644a1b50')
  t.equal(keys.name.toString('hex'), '3ea95ef681782dc9d9955d225bfd442c6f5d6897b029015c6f462e2a9dae2ce3')
  t.equal(keys.tweak.toString('hex'), 'f17fd7141d65274f363fc2a04dd2148a')
  const unsalted = await keysOf('potato', '')
  t.equal(unsalted.data.toString('hex'), '7455c71ab17c865b8471f47b79acb07eb31d5678b80c7e2eaf4fc8066a9ee468')
  t.ok((await keysOf('', 'salt')).data.equals(Buffer.alloc(32)))
  const rows: readonly (readonly [mode: string, encoding: string, plain: string, encrypted: string])[] = [
    ['standard', 'base32', 'a', '0pafnuo05kiri5rkftm2fsb7b4'],
    ['standard', 'base64', 'a', 'BlT7-wAtJbkXdH9sJ_FnWQ'],
    ['standard', 'base32768', 'a', 'ᒪ敞虥碻漛硝纯韇卟'],
    ['standard', 'base32', 'hello.txt', 'dvhjn229ej4s3k94n1mf5une30'],
    ['standard', 'base64', 'hello.txt', 'b-M7iEl0ycHRJLhs8vruGA'],
    ['standard', 'base32768', 'hello.txt', '幑畂⛎狼㓉㤡聅ꆎ⬿'],
    ['standard', 'base64', '123', 'owjYZ17ADwfbJ54N47l3zA'],
    ['standard', 'base32', '你好 世界.mp4', 'ah9tvgngc0l8v2atocht1dgch1g6tt23qb3lnobi96jp0n8p9i50'],
    ['standard', 'base64', '0123456789abcdef', 'gTWhnf0aWnceLsc_9vDtEmrCQaFhlT6R3A_ISieVG2g'],
    ['standard', 'base64', 'x-v2001-02-03-040506-123.txt', 'Lnsiq13fP41lvfQ2a5NqSg-v2001-02-03-040506-123'],
    ['obfuscate', 'base64', 'hello.txt', '162.zwDDG.LPL'],
    ['obfuscate', 'base64', '你好 世界.mp4', '158.佤妁 业畐.AD1'],
    ['obfuscate', 'base64', 'Ünïcödé!.bin', '103.²wÅlÌm¿!!.krw'],
    ['off', 'base64', 'hello.txt', 'hello.txt.bin'],
  ]
  for (const [mode, encoding, plain, encrypted] of rows) {
    const names = namesOf(
      {
        filename_encryption: mode,
        directory_name_encryption: 'true',
        filename_encoding: encoding,
        encrypted_suffix: '.bin',
      },
      keys,
    )
    t.equal(names.file(plain), encrypted, `${plain} in ${mode} ${encoding}`)
    t.same(names.plainFile(encrypted), { name: plain })
    t.same(names.plainFolder(names.folder(plain)), { name: plain })
  }
})

await t.test('Crypt encrypts content as rclone does, with either cipher', async (t) => {
  const { data } = await keysOf('potato', 'sausage')
  const nonce = Buffer.from('000102030405060708090a0b0c0d0e0f1011121314151617', 'hex')
  const boxes = [await wasmSecretBox(), await nativeSecretBox().catch(() => undefined)]
  for (const box of boxes) {
    if (!box) continue
    const stream = new ContentEncryption(box, data, 11, nonce)
    stream.end('hello world')
    t.equal(
      Buffer.concat((await stream.toArray()) as Buffer[]).toString('hex'),
      `52434c4f4e450000${nonce.toString('hex')}c1ae7d48d28fbee217fab9f7ffa206f8407add69dc427141c28c92`,
    )
    const sealed = box.seal(Buffer.from('x'), nonce, data)
    t.equal(box.open(sealed, nonce, data)?.toString(), 'x')
    t.equal(box.open(sealed.fill(0, 3, 4), nonce, data), undefined)
  }
  for (const [plain, encrypted] of [
    [0, 32],
    [1, 49],
    [65_536, 65_584],
    [65_537, 65_601],
    [150_000, 150_080],
    [2 ** 30, 1_074_004_000],
  ] as const) {
    t.equal(encryptedSize(plain), encrypted)
    t.equal(plainSize(encrypted), plain)
  }
  for (const size of [0, 31, 33, 48, 65_585, 65_600])
    t.equal(plainSize(size), undefined, `no encrypted file has ${size} bytes`)
})

await t.test('Crypt accepts passwords in clear or obscured, and stores them obscured', async (t) => {
  t.equal(obscure('potato', Buffer.alloc(16, 'a')), 'YWFhYWFhYWFhYWFhYWFhYXMaGgIlEQ')
  t.equal(reveal(obscure('pässwörd')), 'pässwörd')
  t.equal(passwordOf(`___Obfuscated___${obscure('x y')}`), 'x y')
  t.throws(() => passwordOf('___Obfuscated___short'), { code: 'invalid' })
  const { env, newFolder } = await compositeTree(t, { '/store': {} })
  const folder = await newFolder(store)
  const saved: Readonly<Record<string, unknown>>[] = []
  const save = async (options: Readonly<Record<string, unknown>>) => {
    saved.push(options)
  }
  const first = await openOver({ ...env, save }, folder, everything)
  await put(first, '/file', 'hello')
  t.equal(saved.length, 1)
  t.notMatch(JSON.stringify(saved), /potato|sausage/)
  const second = await openOver({ ...env, save }, folder, { ...everything, ...saved[0] })
  t.equal(await textAt(second, '/file'), 'hello')
  t.equal(saved.length, 1, 'an obscured password is not stored again')
})

await t.test('Crypt reports a wrong password as unavailable, not as an empty folder', async (t) => {
  const { env, newFolder } = await compositeTree(t, { '/store': {} })
  for (const encoding of ['base32', 'base64', 'base32768']) {
    const folder = await newFolder(store)
    const options = { ...everything, filename_encoding: encoding }
    await put(await openOver(env, folder, options), '/file', 'hello')
    const other = await openOver(env, folder, { ...options, password: 'tomato' })
    await refuses(t, () => listed(other, '/'), 'unavailable', encoding)
  }
  for (const mode of ['off', 'obfuscate']) {
    const folder = await newFolder(store)
    const options = { filename_encryption: mode }
    const right = await openOver(env, folder, options)
    await put(right, '/file', 'hello')
    await put(right, '/empty', '')
    const other = await openOver(env, folder, { ...options, salt: '' })
    for (const { name } of await listed(other, '/')) {
      if (name !== 'file') continue
      await refuses(t, () => other.read(at('/file')), 'unavailable', `${mode}: reading`)
      await refuses(t, () => other.read(at('/file'), { offset: 3 }), 'unavailable', `${mode}: reading a part`)
    }
  }
  await refuses(t, () => openOver(env, '/store', { encrypted_suffix: 'bin' }), 'invalid', 'a suffix without a dot')
})

await t.test('Crypt reads every range of files of several blocks, also after they were replaced', async (t) => {
  const { env, newFolder } = await compositeTree(t, { '/store': {} })
  const driver = await openOver(env, await newFolder(store), everything)
  const block = 65_536
  for (const size of [1, block - 1, block, block + 1, 3 * block, 3 * block + 17]) {
    const data = randomBytes(size)
    t.equal((await put(driver, '/file', data)).size, size)
    for (const offset of [0, 1, block - 1, block, block + 1, 2 * block - 1, 3 * block, 3 * block + 16]) {
      for (const length of [0, 1, 16, block, block + 1, 2 * block, undefined]) {
        const end = length === undefined ? undefined : offset + length
        t.ok(
          (await bytesAt(driver, '/file', offset, length)).equals(data.subarray(offset, end)),
          `${length ?? 'all'} at ${offset} of ${size}`,
        )
      }
    }
  }
})

await t.test('Crypt reports damaged files and returns no altered byte', async (t) => {
  const { env, newFolder } = await compositeTree(t, { '/store': {} })
  const folder = await newFolder(store)
  const driver = await openOver(env, folder)
  const data = randomBytes(200_000)
  const below = env.tree(folder) as WritableDriver
  const damaged = async (change: (bytes: Buffer) => Buffer) => {
    await put(driver, '/file', data)
    await put(below, '/file.bin', change(await bytesAt(below, '/file.bin')))
  }
  const flip = (index: number) => (bytes: Buffer) => {
    bytes[index] = bytes.readUInt8(index) ^ 1
    return bytes
  }
  for (const index of [0, 9, 40]) {
    await damaged(flip(index))
    await refuses(t, () => driver.read(at('/file')), 'unavailable', `byte ${index}`)
  }
  await damaged(flip(70_000))
  t.ok((await bytesAt(driver, '/file', 0, 65_536)).equals(data.subarray(0, 65_536)), 'an intact block can be read')
  await refuses(t, () => bytesAt(driver, '/file'), 'unavailable', 'a later block')
  for (const length of [0, 20, 40, 65_600]) {
    await damaged((bytes) => bytes.subarray(0, length))
    await refuses(t, () => bytesAt(driver, '/file'), 'unavailable', `cut after ${length} bytes`)
    t.equal((await listed(driver, '/')).length, 1)
  }
  await put(below, '/readme.txt', 'not encrypted')
  t.same(await namesIn(driver, '/'), ['file'], 'a file that is not encrypted is not listed')
  await refuses(t, () => newGuardedDriver(driver).removeTree(at('/')), 'denied', 'the root')
})

await t.test(
  'Crypt: show_hidden hides names with a leading dot, and thumbnails are read from .thumbnails',
  async (t) => {
    const { env, newFolder } = await compositeTree(t, { '/store': {} })
    const driver = await openOver(env, await newFolder(store), { show_hidden: false, thumbnail: true })
    await driver.mkdir(at('/.thumbnails'))
    await put(driver, '/.thumbnails/picture.png.webp', 'small')
    await put(driver, '/picture.png', 'large')
    t.same(await namesIn(driver, '/'), ['picture.png'])
    t.same(driver.traits?.thumbnails, ['image', 'video'])
    t.same(await driver.thumbnail?.(at('/picture.png'), 'image'), { type: 'image/webp', bytes: Buffer.from('small') })
    await refuses(t, async () => driver.thumbnail?.(at('/other.png'), 'image'), 'unsupported', 'one that is not there')
  },
)
