/**
 * Renames of folders of a bucket on OpenStack Swift: failures half-way, other clients, and folder objects with content.
 */
import { DeleteObjectCommand, GetObjectCommand, ListObjectsCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import t, { type Test } from 'tap'
import { s3Type } from '../../../drivers/s3/index.js'
import { GatewayError } from '../../../src/base/errors.js'
import { asPath as p, type Path } from '../../../src/base/path.js'
import { lacks } from '../../programs.js'
import { swiftPrograms } from '../../servers/swift.js'
import { altered, newTree, overwrite } from '../../tree/tree-fixture.js'
import { testEnv } from '../env.js'
import { startBucket } from './mount.js'

const nothing = async () => undefined
const unavailable = async () => {
  throw new GatewayError('unavailable')
}
const members = { 'd/a': 'one', 'd/b': 'two', 'd/n/c': 'three' }
const renamed = { 'e/.openlist': '', 'e/a': 'one', 'e/b': 'two', 'e/n/.openlist': '', 'e/n/c': 'three' }

await t.test('S3: renames of folders', { skip: lacks(...swiftPrograms) }, async (t) => {
  const bucket = await startBucket()
  t.teardown(() => bucket.stop())

  /** A tree over a bucket with these objects; `before` is called before each copy and each removal of the driver. */
  const start = async (t: Test, objects: Readonly<Record<string, string>>) => {
    const options = bucket.options()
    const prefix = `${options.root_folder_path.slice(1)}/`
    const object = (key: string) => ({ Bucket: bucket.name, Key: prefix + key })
    for (const [key, content] of Object.entries(objects))
      await bucket.client.send(new PutObjectCommand({ ...object(key), Body: content }))
    const driver = await s3Type.open(options, testEnv())
    const before: Record<'copy' | 'remove', (path: Path) => Promise<void>> = { copy: nothing, remove: nothing }
    const faulty = altered(driver, {
      copy: async (from, to, options) => {
        await before.copy(from)
        await driver.copy?.(from, to, options)
      },
      remove: async (path, options) => {
        await before.remove(path)
        await driver.remove?.(path, options)
      },
    })
    const fs = (await newTree(t, { '/': { driverOf: async () => faulty } })).as()
    /** The content of each object, by its key. */
    const stored = async () => {
      const { Contents = [] } = await bucket.client.send(
        new ListObjectsCommand({ Bucket: bucket.name, Prefix: prefix }),
      )
      const contents: Record<string, string> = {}
      for (const { Key = '' } of Contents) {
        const { Body } = await bucket.client.send(new GetObjectCommand({ Bucket: bucket.name, Key }))
        contents[Key.slice(prefix.length)] = (await Body?.transformToString()) ?? ''
      }
      return contents
    }
    const rename = () => fs.move(p('/d'), p('/e'), { overwrite: false })
    const remove = (key: string) => bucket.client.send(new DeleteObjectCommand(object(key)))
    return { fs, before, stored, rename, remove }
  }

  await t.test('a rename that is made again completes one that failed', async (t) => {
    const { before, stored, rename } = await start(t, members)
    before.copy = unavailable
    await t.rejects(rename(), { code: 'unavailable' })
    await t.rejects(rename(), { code: 'unavailable' }, 'a retry has the same error')
    t.same(await stored(), { ...members, 'e/.openlist': '', 'e/n/.openlist': '' })
    before.copy = (from) => (from === '/d/b' ? unavailable() : nothing())
    await t.rejects(rename(), { code: 'unavailable' }, 'one member is not copied')
    t.same(await stored(), { ...members, ...without(renamed, 'e/b') })
    before.copy = nothing
    before.remove = (path) => (path === '/d/b' ? unavailable() : nothing())
    await t.rejects(rename(), { code: 'unavailable' }, 'one member is not removed')
    before.remove = nothing
    await rename()
    t.same(await stored(), renamed)
  })

  await t.test('a member that another client removes meanwhile is left out', async (t) => {
    const uncopied = await start(t, members)
    uncopied.before.copy = async (path) => {
      if (path === '/d/n/c') await uncopied.remove('d/n/c')
    }
    await uncopied.rename()
    t.same(await uncopied.stored(), without(renamed, 'e/n/c'), 'before it is copied')

    const copied = await start(t, members)
    copied.before.remove = async (path) => {
      if (path === '/d/a') await Promise.all([copied.remove('d/b'), copied.remove('d/n/c')])
    }
    await copied.rename()
    t.same(await copied.stored(), renamed, 'before it is removed')
  })

  await t.test('the content of a folder object is never removed by a rename', async (t) => {
    for (const marker of ['d/n/', 'd/n/.openlist', 'd/']) {
      const { fs, stored, rename } = await start(t, { ...members, [marker]: 'a note' })
      const refused = { code: 'not_empty', reason: 'the object of the folder itself has content' }
      await t.rejects(rename(), refused)
      t.match(await stored(), { ...renamed, [marker]: 'a note' })
      await t.rejects(rename(), refused, 'nor by a retry')
      t.match(await stored(), { ...renamed, [marker]: 'a note' })
      await t.rejects(fs.move(p('/d'), p('/e'), overwrite), refused, 'nor by one that replaces')
      t.match(await stored(), { [marker]: 'a note' })
      await fs.remove(p('/d'))
      t.same(await stored(), renamed, 'the folder can be removed with it')
    }
  })

  await t.test('a copy of a folder object with content reports what it leaves out', async (t) => {
    const { fs, stored } = await start(t, { ...members, 'd/n/': 'a note' })
    const skipped: unknown[] = []
    const onSkippedNames = (folder: Path, names: object) => skipped.push([folder, names])
    await fs.copy(p('/d'), p('/e'), { overwrite: false, onSkippedNames })
    t.same(await stored(), { ...members, 'd/n/': 'a note', ...renamed })
    t.same(skipped, [['/d/n', { count: 1, names: [''] }]])
  })
})

function without(objects: Readonly<Record<string, string>>, key: string): Record<string, string> {
  return Object.fromEntries(Object.entries(objects).filter(([each]) => each !== key))
}
