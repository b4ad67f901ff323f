/** What is done for shares without a request. */
import { mock } from 'node:test'
import t from 'tap'
import { GatewayError } from '../../src/base/errors.js'
import { VisitorAccess } from '../../src/shares/visitor-access.js'
import { until } from '../until.js'

void t.test('a removal of old visits that fails is logged', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const error = new GatewayError('unavailable')
  const logged: object[] = []
  const options = {
    visits: { sweep: () => Promise.reject(error) },
    log: { warn: (details: object) => void logged.push(details) },
  }
  const access = new VisitorAccess(options as unknown as ConstructorParameters<typeof VisitorAccess>[0])
  t.teardown(() => access.close())
  mock.timers.tick(3600_000)
  t.ok(await until(() => logged.length > 0))
  t.same(logged, [{ err: error }])
})
