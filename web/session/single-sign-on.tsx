/** Signing in at a provider. */
import { useQuery } from '@tanstack/preact-query'
import { apiUrl } from '../api/client.ts'
import { publicSettings } from '../api/queries.ts'

/** The public settings of single sign-on; undefined unless it is on. */
export function useSingleSignOn() {
  const { data } = useQuery(publicSettings)
  return data?.sso_login_enabled === 'true' ? data : undefined
}

interface ProviderLinkProps {
  /** `link`: links an identity to the account that is signed in. `confirm`: confirms its session. */
  readonly method: 'console' | 'link' | 'confirm'
  /** The page of the console that follows. */
  readonly after: string
  readonly text: string
}

/** Leads to the page of the provider. */
export function ProviderLink({ method, after, text }: ProviderLinkProps) {
  const query = { method, redirect: after }
  return (
    <a class="button" href={apiUrl('/api/auth/sso', {}, query).href}>
      {text}
    </a>
  )
}
