/** Replays the requests of clients, and checks what they expect of the responses. */
import t, { type Test } from 'tap'
import { startGateway, type RunningGateway } from '../../gateway.js'
import { sender } from './dav-client.js'
import { replaySteps } from './traces/replay.js'
import type { Trace } from './traces/trace.js'
import { traces } from './traces/traces.js'

for (const driver of ['Local', 'Memory']) {
  void t.test(`over ${driver}`, async (t) => {
    const running = await startGateway(t, driver === 'Local' ? {} : { driver: { name: driver } })
    for (const trace of traces) {
      await t.test(`${trace.client} gets the responses that it expects`, (t) => replay(t, running, trace))
    }
  })
}

async function replay(t: Test, running: RunningGateway, trace: Trace): Promise<void> {
  const { settings } = running.gateway
  const wanted = new Map(Object.entries(trace.settings ?? {}))
  const before = new Map([...wanted.keys()].map((key) => [key, settings.get(key)]))
  await settings.set(wanted)
  const send = sender(running, { prefix: '' })
  const anonymous = sender(running, { prefix: '', authorization: '' })
  try {
    t.equal((await send('MKCOL', `/dav/${trace.folder}`)).status, 201)
    await replaySteps(t, trace, { send, anonymous, dav: `${running.url}/dav` })
  } finally {
    await settings.set(before)
  }
}
