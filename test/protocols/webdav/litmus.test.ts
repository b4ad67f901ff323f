/** litmus passes on storages of every kind. */
import t from 'tap'
import { memoryType } from '../../../drivers/memory/index.js'
import { testEnv } from '../../drivers/env.js'
import { flaky } from '../../drivers/flaky.js'
import { limitedTypes } from '../../drivers/limited.js'
import { startGateway } from '../../gateway.js'
import { lacks } from '../../programs.js'
import { mount, remotes, skipOver } from '../../servers/remotes.js'
import { litmusPasses } from './litmus.js'

const driverTypes = [
  ...limitedTypes(),
  {
    ...memoryType,
    name: 'Wrapped',
    open: async () => flaky(await memoryType.open({ size_limit: 0, case_sensitive: true }, testEnv()), []).driver,
  },
]

for (const name of ['Local', 'Memory', ...driverTypes.map((type) => type.name)]) {
  const title = `litmus passes on ${name} without a failure, a warning or a skipped test`
  void t.test(title, { skip: lacks('litmus') }, async (t) => {
    const running = await startGateway(t, name === 'Local' ? {} : { driver: { name }, driverTypes })
    await litmusPasses(t, running.davUrl, running.adminPassword)
  })
}

for (const remote of remotes) {
  const title = `litmus passes on ${remote.name} without a failure, a warning or a skipped test`
  void t.test(title, { skip: skipOver(remote, 'litmus') }, async (t) => {
    const server = await remote.start()
    t.teardown(() => server.stop())
    const running = await startGateway(t)
    await mount(running, running.adminPassword, await server.storages('/remote'))
    await litmusPasses(t, `${running.davUrl}remote/`, running.adminPassword)
  })
}
