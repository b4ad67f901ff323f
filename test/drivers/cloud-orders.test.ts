/** The options order_by and order_direction of drivers: the order of listings, if the storage has none of its own. */
import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { open115Type } from '../../drivers/115/index.js'
import { aliyundriveType } from '../../drivers/aliyundrive/index.js'
import { quarkType } from '../../drivers/quark/index.js'
import { startAliyundrive } from '../doubles/aliyundrive.js'
import { startOpen115 } from '../doubles/115-open.js'
import { startQuark } from '../doubles/quark.js'
import { serve } from '../protocols/http/served.js'
import { credentials } from './aliyundrive/mount.js'
import { credentialsOf } from './115/open-mount.js'

/** Files in the order of their creation, in which no other of their properties is sorted. */
const files = { b: 'xx', c: 'xxx', a: 'x' }

/** A double whose root folder has these files: the options that lead to it. */
const drives = {
  '115 Open': async (t: Test) => {
    const double = await startOpen115(t)
    for (const [name, content] of Object.entries(files))
      double.drive.create('0', name, await double.contents.add(content))
    return credentialsOf(double)
  },
  AliyundriveOpen: async (t: Test) => {
    const double = await startAliyundrive(t)
    const { drives } = double
    for (const [name, content] of Object.entries(files)) {
      drives.create(drives.ids.resource, 'root', name, await double.learn(content))
      await wait(2)
    }
    return credentials(double)
  },
  Quark: async (t: Test) => {
    const { session, drive, contents } = await startQuark(t)
    for (const [name, content] of Object.entries(files)) {
      drive.create('0', name, await contents.add(content))
      await wait(2)
    }
    return { cookie: session.cookie }
  },
}

const orders = {
  '115 Open': [
    { order_by: 'file_size', order_direction: 'desc', shown: 'cba' },
    { order_by: 'file_name', order_direction: 'asc', shown: 'abc' },
    { order_by: 'file_name', order_direction: 'desc', shown: 'cba' },
  ],
  AliyundriveOpen: [
    { order_by: 'created_at', shown: 'bca' },
    { order_by: 'created_at', order_direction: 'DESC', shown: 'acb' },
    { order_by: 'size', order_direction: 'DESC', shown: 'cba' },
  ],
  Quark: [
    { order_by: 'updated_at', order_direction: 'asc', shown: 'bca' },
    { order_by: 'updated_at', order_direction: 'desc', shown: 'acb' },
    { order_by: 'file_name', order_direction: 'desc', shown: 'cba' },
  ],
}

for (const driver of ['115 Open', 'AliyundriveOpen', 'Quark'] as const) {
  await t.test(`${driver} orders a storage without an order of its own`, async (t) => {
    const account = await drives[driver](t)
    const admin = await serve(t, '', [open115Type, aliyundriveType, quarkType])
    const names = async (path: string) => (await admin.names(path)).join('')
    const mount = async (path: string, options: object, fields: object = {}) =>
      t.match(
        await admin.mount(path, driver, { addition: JSON.stringify({ ...account, ...options }), ...fields }),
        { code: 200 },
        path,
      )
    await mount('/plain', {})
    t.equal(await names('/plain'), 'abc', 'names without either')
    for (const [index, { shown, ...options }] of orders[driver].entries()) {
      await mount(`/${index}`, options)
      t.equal(await names(`/${index}`), shown, JSON.stringify(options))
      await mount(`/own ${index}`, options, { order_by: 'size', order_direction: 'asc' })
      t.equal(await names(`/own ${index}`), 'abc', 'its own order counts')
    }
  })
}
