/** The journal of a copy or move within a request keeps what a later step asks, and no more. */
import t from 'tap'
import { asPath } from '../../src/base/path.js'
import { MemoryJournal } from '../../src/transfer/copy-job.js'

const [file, folder] = [asPath('/a/file'), asPath('/a')]
const state = { source: 'version 1', size: 3, distinct: true, copy: 'version 2' }

void t.test('of a copy whose members have no properties, nothing', async (t) => {
  const journal = new MemoryJournal('nothing')
  await journal.record(file, state)
  t.equal(await journal.copied(file), undefined)
})

void t.test('of another copy, which members were copied', async (t) => {
  const journal = new MemoryJournal('members')
  await journal.record(file, state)
  await journal.record(asPath('/a/other'), { ...state, source: 'version 3' })
  t.equal(await journal.copied(file), await journal.copied(asPath('/a/other')), 'they share one state')
  t.not(await journal.copied(file), undefined)
  t.equal(await journal.copied(asPath('/a/none')), undefined)
})

void t.test('of a move, the states of sources and copies', async (t) => {
  const journal = new MemoryJournal('states')
  await journal.record(file, state)
  t.equal((await journal.itemsIn(folder)).copied.get('file'), state)
})
