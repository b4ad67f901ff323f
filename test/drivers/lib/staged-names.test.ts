/** Names of files that are being written: what is swept by them lies in the folder that was listed. */
import t from 'tap'
import { isOrphan, stagingRun, stagedName } from '../../../drivers/lib/staged-names.js'

const instance = { name: 'this-run', isOver: () => true }

await t.test('a staged name names its run', async (t) => {
  t.equal(stagingRun(stagedName('host-boot-1-2-abc')), 'host-boot-1-2-abc')
  t.ok(isOrphan(stagedName('dead-run'), instance))
  t.equal(stagingRun('file'), undefined)
})

await t.test('a name that leads into another folder is never one to be swept', async (t) => {
  for (const way of ['/../../file', '\\..\\file', '/x', '\0', '\ufffd', '']) {
    const name = `.~tidegate-part-dead-run${way}`
    t.equal(isOrphan(name, instance), way === '', JSON.stringify(name))
  }
})
