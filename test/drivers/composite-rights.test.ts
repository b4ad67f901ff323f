/** A storage on top of another one: access is decided by its own path, and locks of the storage below apply to it. */
import t from 'tap'
import { aliasFields, aliasType } from '../../drivers/alias/index.js'
import { cryptFields, cryptType } from '../../drivers/crypt/index.js'
import type { Driver } from '../../src/contract/driver.js'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { asPath } from '../../src/base/path.js'
import { checkOptions } from '../../src/mounts/fields.js'
import { sourceOf, text } from '../tree/tree-fixture.js'
import { compositeTree } from './composite-tree.js'

const p = asPath

const kinds: Readonly<Record<string, (env: DriverEnv) => Promise<Driver>>> = {
  Alias: (env) => {
    const policies = { write_conflict_policy: 'first', put_conflict_policy: 'first' }
    return aliasType.open(checkOptions(aliasFields, { paths: '/below', ...policies }), env)
  },
  Crypt: (env) => {
    const names = { encrypted_suffix: '.bin', password: 'x' }
    return cryptType.open(checkOptions(cryptFields, { remote_path: '/below', ...names }), env)
  },
}

for (const [name, open] of Object.entries(kinds)) {
  await t.test(`${name}: rules apply by its own path, and locks of both paths apply`, async (t) => {
    const { tree, env } = await compositeTree(t, { '/below': {} })
    await tree.mount('/above', { driverOf: () => open(env) })
    const ada = tree.as()
    await ada.mkdir(p('/above/shut'))
    await ada.write(p('/above/shut/file'), sourceOf('hello'))
    await tree.rule('/below', { readUsers: [2], readUsersSub: true })
    await t.rejects(ada.list(p('/below/shut')), { code: 'hidden' }, 'the path below is closed')
    t.equal(await text(ada.read(p('/above/shut/file'))), 'hello', 'the path above is open')
    await tree.rule('/above/shut', { readUsers: [2], readUsersSub: true })
    await t.rejects(ada.read(p('/above/shut/file')), { code: 'hidden' }, 'the path above is closed')
    const other = tree.as({ userId: 2 })
    await other.lock(p('/below/shut'), { scope: 'exclusive', deep: true, owner: '', seconds: 60 })
    await t.rejects(other.write(p('/above/shut/file'), sourceOf('new')), { code: 'locked' }, 'writing')
    await t.rejects(other.remove(p('/above/shut/file')), { code: 'locked' }, 'removing')
    await t.rejects(other.move(p('/above/shut'), p('/above/moved'), { overwrite: false }), { code: 'locked' }, 'moving')
    t.equal(await text(other.read(p('/above/shut/file'))), 'hello')
  })
}
