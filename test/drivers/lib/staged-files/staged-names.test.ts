/** Names of staged files: an orphan can be recognized only in the listed folder. */
import t from 'tap'
import { isOrphan, stagingRun, stagedName } from '../../../../drivers/lib/staged-files/staged-names.js'

const instance = { name: 'this-run', isOver: () => true }

await t.test('a staged name contains the name of its instance', async (t) => {
  t.equal(stagingRun(stagedName('host-boot-1-2-abc')), 'host-boot-1-2-abc')
  t.ok(isOrphan(stagedName('dead-run'), instance))
  t.equal(stagingRun('file'), undefined)
})

await t.test('a name that would lead into another folder is not an orphan', async (t) => {
  for (const way of ['/../../file', '\\..\\file', '/x', '\0', '\ufffd', '']) {
    const name = `.~tidegate-part-dead-run${way}`
    t.equal(isOrphan(name, instance), way === '', JSON.stringify(name))
  }
})
