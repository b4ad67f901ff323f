/** The evaluation of HTTP and WebDAV preconditions, and the entity tags of files. */
import t from 'tap'
import type { Entry } from '../../src/contract/entry.js'
import { asPath } from '../../src/base/path.js'
import {
  etagOf,
  hasPreconditions,
  assertPreconditions,
  type Preconditions,
  type IfCondition,
  type IfList,
} from '../../src/tree/preconditions.js'

const entry: Entry = {
  name: 'x',
  kind: 'file',
  size: 16,
  modified: new Date('2026-01-01T00:00:00.700Z'),
  revision: 'r1',
}
const token: IfCondition = { not: false, kind: 'token', value: 'urn:uuid:held' }
const other: IfCondition = { not: false, kind: 'token', value: 'urn:uuid:other' }
const etag: IfCondition = { not: false, kind: 'etag', value: '"r1"' }
const not = (condition: IfCondition): IfCondition => ({ ...condition, not: true })
const lists = (...all: IfList[]): Preconditions => ({ if: [{ lists: all }] })

/** [preconditions, whether they hold if the file exists, whether they hold if it is missing] */
const rows: readonly (readonly [string, Preconditions, boolean, boolean])[] = [
  ['no precondition', {}, true, true],
  ['If-Match of the tag', { ifMatch: ['"other"', '"r1"'] }, true, false],
  ['If-Match of another tag', { ifMatch: ['"r2"'] }, false, false],
  ['If-Match compares strongly', { ifMatch: ['W/"r1"'] }, false, false],
  ['If-Match: *', { ifMatch: '*' }, true, false],
  ['If-None-Match of the tag', { ifNoneMatch: ['"r1"'] }, false, true],
  ['If-None-Match compares weakly', { ifNoneMatch: ['W/"r1"'] }, false, true],
  ['If-None-Match of another tag', { ifNoneMatch: ['"r2"'] }, true, true],
  ['If-None-Match: *', { ifNoneMatch: '*' }, false, true],
  [
    'If-Unmodified-Since the second of the modification',
    { ifUnmodifiedSince: new Date('2026-01-01T00:00:00Z') },
    true,
    true,
  ],
  [
    'If-Unmodified-Since the second before the modification',
    { ifUnmodifiedSince: new Date('2025-12-31T23:59:59Z') },
    false,
    true,
  ],
  ['If-Match overrides If-Unmodified-Since', { ifMatch: ['"r1"'], ifUnmodifiedSince: new Date(0) }, true, false],
  ['If: a held token', lists([token]), true, true],
  ['If: another token', lists([other]), false, false],
  ['If: not another token', lists([not(other)]), true, true],
  ['If: not a held token', lists([not(token)]), false, false],
  ['If: the tag', lists([etag]), true, false],
  ['If: not the tag', lists([not(etag)]), false, true],
  ['If: all of one list', lists([token, other]), false, false],
  ['If: one of several lists', lists([other], [token]), true, true],
  ['If: a token and the tag', lists([token, etag]), true, false],
  ['If: an empty header', { if: [] }, false, false],
]

void t.test('preconditions are evaluated as RFC 9110 §13.1 and RFC 4918 §10.4 specify', async (t) => {
  const held = async (conditions: Preconditions, there: Entry | undefined) => {
    try {
      await assertPreconditions(conditions, there, async () => ({ entry: there, tokens: new Set(['urn:uuid:held']) }))
      return true
    } catch (error) {
      t.match(error, { code: 'precondition_failed' })
      return false
    }
  }
  for (const [title, conditions, there, missing] of rows) {
    t.equal(await held(conditions, entry), there, `${title}, of a file`)
    t.equal(await held(conditions, undefined), missing, `${title}, of a missing file`)
    const asked = Object.keys(conditions).length > 0
    t.equal(hasPreconditions(conditions), asked, title)
  }
})

void t.test('an If header with lists of several resources holds if one of the lists holds', async (t) => {
  const asked: unknown[] = []
  const stateOf = async (path: unknown) => {
    asked.push(path)
    return { entry: undefined, tokens: new Set(path === '/other' ? ['urn:uuid:other'] : []) }
  }
  const tagged: Preconditions = { if: [{ lists: [[other]] }, { path: asPath('/other'), lists: [[token], [other]] }] }
  await assertPreconditions(tagged, entry, stateOf)
  t.same(asked, [undefined, '/other'])
  await t.rejects(assertPreconditions({ if: [{ path: asPath('/none'), lists: [[other]] }] }, entry, stateOf), {
    code: 'precondition_failed',
    reason: 'If does not hold',
  })
})

void t.test('an entity tag is the revision, or depends on size and time if the entry has no revision', async (t) => {
  const plain: Entry = { name: 'x', kind: 'file', size: 16, modified: entry.modified }
  t.equal(etagOf(entry), '"r1"')
  t.equal(etagOf(plain), etagOf({ ...plain }))
  t.not(etagOf(plain), etagOf({ ...plain, size: 17 }))
  t.not(etagOf(plain), etagOf({ ...plain, modified: new Date(plain.modified.getTime() + 1) }))
})

void t.test('characters of a revision that are not allowed in an entity tag are escaped', async (t) => {
  const entry = { name: 'a', kind: 'file', size: 1, modified: new Date(0) } as const
  t.equal(etagOf({ ...entry, revision: '1f-"2" 3\r\nx:y ä' }), '"1f-%222%22%203%d%ax:y%20%e4"')
  t.equal(etagOf({ ...entry, revision: '67pcx.35s' }), '"67pcx.35s"')
})
