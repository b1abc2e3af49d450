"""What a reader sees: tables, figures, the scorecard, the token viewer and the report."""
