/** Events for tests. */
import { orderedIds } from '../../src/audit/uuid.js'
import type { AuditEvent } from '../../src/database/audit-rows.js'

const idAt = orderedIds()

export function anEvent(facts: Partial<AuditEvent> = {}): AuditEvent {
  const time = facts.time ?? Date.now()
  return {
    id: idAt(time),
    node: 'files-1:4711',
    kind: 'file.stored',
    actor: { userId: 3, name: 'ann', protocol: 'webdav', address: '192.0.2.7', credential: 'password' },
    result: 'done',
    ...facts,
    time,
  }
}
