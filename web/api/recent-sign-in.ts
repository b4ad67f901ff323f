/** Where requests that need a recent sign-in wait, until the user has entered the password again or refuses to. */
import { signal } from '@preact/signals'

/** The question to the user; undefined if nothing waits. Called with whether the user is confirmed. */
export const question = signal<(isConfirmed: boolean) => void>()

let asked: Promise<boolean> | undefined

/** Asks the user, once for all requests that wait. Resolves to whether the user is confirmed. */
export function isConfirmed(): Promise<boolean> {
  asked ??= new Promise<boolean>((resolve) => (question.value = resolve)).finally(() => {
    asked = undefined
    question.value = undefined
  })
  return asked
}
