/** Which ranges Alias and Crypt request from the storage below for a part of a file. */
import { randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { aliasFields, aliasType } from '../../drivers/alias/index.js'
import { blockSize, headerSize, sealedBlockSize } from '../../drivers/crypt/content.js'
import { cryptFields, cryptType } from '../../drivers/crypt/index.js'
import { MemoryDriver } from '../../drivers/memory/memory.js'
import type { ByteRange } from '../../src/contract/call-options.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { asPath } from '../../src/base/path.js'
import { checkOptions } from '../../src/mounts/fields.js'
import { altered, bare, sourceOf } from '../tree/tree-fixture.js'
import { compositeTree } from './composite-tree.js'

const data = randomBytes(10 * blockSize + 5)

const alias = (env: DriverEnv): Promise<Driver> =>
  aliasType.open(
    checkOptions(aliasFields, { paths: 'x:/store', write_conflict_policy: 'first', put_conflict_policy: 'first' }),
    env,
  )
const crypt = (env: DriverEnv): Promise<Driver> =>
  cryptType.open(checkOptions(cryptFields, { remote_path: '/store', password: 'potato', salt: 'sausage' }), env)

/** The range of the encrypted blocks that hold these bytes. */
function sealed(first: number, last: number): ByteRange {
  const [from, to] = [Math.floor(first / blockSize), Math.floor(last / blockSize) + 1]
  return { offset: headerSize + from * sealedBlockSize, length: (to - from) * sealedBlockSize }
}

for (const [name, open, expected] of [
  ['Alias', alias, (range: ByteRange) => range],
  ['Crypt', crypt, ({ offset, length = 0 }: ByteRange) => sealed(offset, offset + length - 1)],
] as const) {
  void t.test(`${name} requests only what covers the range, by \`read\` and by a handle`, async (t) => {
    const asked: (ByteRange | undefined)[] = []
    const inner = new MemoryDriver(0)
    const counting = altered(inner, {
      ...bare,
      read: (path, range, options) => {
        asked.push(range)
        return inner.read(path, range, options)
      },
    })
    const { tree, env } = await compositeTree(t, {
      '/store': { driverOf: async () => counting, traits: { parallel: 1 } },
    })
    await tree.mount('/view', { driverOf: () => open(env) })
    const fs = tree.as()
    const path = asPath('/view/file')
    await fs.write(path, sourceOf(data))
    const part = async (offset: number, length: number) => buffer(await fs.read(path, { offset, length }))
    // Crypt reads the header of each file once.
    await part(1, 1)
    for (const [offset, length] of [
      [100, 2],
      [blockSize - 1, 2],
      [data.length - 3, 3],
      [3 * blockSize, blockSize],
    ] as const) {
      asked.length = 0
      t.ok((await part(offset, length)).equals(data.subarray(offset, offset + length)))
      t.same(asked, [expected({ offset, length })])

      asked.length = 0
      const file = await fs.open(path, 'read')
      const into = Buffer.alloc(length)
      t.equal(await file.read(into, offset), length)
      t.ok(into.equals(data.subarray(offset, offset + length)))
      t.same(asked, [expected({ offset, length })])
      await file.close()
    }
    asked.length = 0
    const size = 32 * 1024
    const file = await fs.open(path, 'read')
    for (let position = 0; position < data.length; position += size) {
      const into = Buffer.alloc(size)
      const filled = await file.read(into, position)
      if (!into.subarray(0, filled).equals(data.subarray(position, position + size)))
        t.fail(`wrong bytes at ${position}`)
    }
    await file.close()
    t.ok(asked.length <= 4, `${asked.length} requests for 21 reads in sequence`)
    asked.length = 0
    t.ok((await buffer(await fs.read(path))).equals(data))
    t.same(asked, [undefined], 'the whole file is one stream')
  })
}
