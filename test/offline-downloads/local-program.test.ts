/** A call to a download program that does not respond is rejected after a timeout. */
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { callProgram } from '../../src/offline-downloads/tool.js'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

void t.test('callProgram() rejects after its timeout, even under garbage collection', async (t) => {
  const silent = createServer().listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const collecting = setInterval(collectGarbage, 100)
  t.teardown(() => {
    clearInterval(collecting)
    silent.close()
  })
  const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`
  const call = callProgram('the program', url, { signal: new AbortController().signal })
  await t.rejects(call, { code: 'unavailable', message: /the program does not answer/ })
})
