/** The conformance suite on a driver without empty folders, such as those of object stores. */
import t from 'tap'
import { conformance } from '../driver-conformance/driver.js'
import { ObjectStoreDriver } from './object-store.js'

await t.test('a driver without empty folders passes the conformance suite', async (t) => {
  await conformance(t, {
    type: { traits: { emptyFolders: false, keeps: ['modified'] } },
    many: 2500,
    open: async () => ({ driver: new ObjectStoreDriver(), dispose: async () => undefined }),
  })
})
