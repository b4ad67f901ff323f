export default function ProfilePage(_: { readonly me?: unknown }) {
  return <p>ProfilePage</p>
}
