"""Who may call a butler: tokens, rights and sign-in."""
