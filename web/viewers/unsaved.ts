/** Asks before the user leaves what is not saved. */
import { useEffect } from 'preact/hooks'
import { textsOf } from '../texts/texts.ts'

const texts = textsOf('viewers')

/**
 * The part of the Navigation API (HTML Standard, section 7.2.6) that is used here. TypeScript does not declare it yet.
 */
interface NavigateEvent extends Event {
  readonly destination: { readonly sameDocument: boolean }
}

/** Number of texts that are not saved. */
let unsaved = 0

/** Asks if something is not saved. Returns whether it may be dropped. */
export function mayLeave(): boolean {
  return unsaved === 0 || confirm(texts.look.leaveUnsaved)
}

/** Asks before another page is shown, also within the console, and before the tab is closed. */
export function useWarningBeforeLeaving(isNeeded: boolean): void {
  useEffect(() => {
    if (!isNeeded) return
    const { navigation } = window as { readonly navigation?: EventTarget }
    const onLeave = (event: BeforeUnloadEvent) => event.preventDefault()
    function onNavigate(event: Event): void {
      // The browser asks by itself before it leaves the console.
      if (!(event as NavigateEvent).destination.sameDocument || !event.cancelable) return
      if (!mayLeave()) event.preventDefault()
    }
    unsaved++
    addEventListener('beforeunload', onLeave)
    navigation?.addEventListener('navigate', onNavigate)
    return () => {
      unsaved--
      removeEventListener('beforeunload', onLeave)
      navigation?.removeEventListener('navigate', onNavigate)
    }
  }, [isNeeded])
}
