/** Memory that is released while the process is idle. */
import t from 'tap'
import { releaseIdleMemory, releaseWhenIdle } from '../../src/base/idle-memory.js'

void t.test('releaseIdleMemory() calls what was registered, until its registration ends', async (t) => {
  let released = 0
  const end = releaseWhenIdle(() => released++)
  releaseIdleMemory()
  releaseIdleMemory()
  t.equal(released, 2)
  end()
  releaseIdleMemory()
  t.equal(released, 2)
})
