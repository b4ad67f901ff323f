/** Why a file cannot be shown. */
import type { FailureReason } from './messages.ts'

export class PreviewFailure extends Error {
  readonly reason: FailureReason

  constructor(reason: FailureReason) {
    super(reason)
    this.reason = reason
  }
}
